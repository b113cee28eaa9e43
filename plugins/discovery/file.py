"""`file-discovery`: reads endpoints from a YAML or JSON file."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import structlog
from pydantic import Field

from pointsman import DiscoveryError, EndpointsFiles, EndpointSink, PluginParams, plugin


@plugin("file-discovery")
class FileDiscovery:
    """Reads the pool's endpoints from a file, and optionally watches it for changes.

    The file has a list `endpoints`, whose items have the keys `name`, `address` and `port`, and optionally `namespace`,
    `labels` and `metricsPort`. If a changed file is invalid, the current endpoints are kept.
    """

    class Params(PluginParams):
        """The file, and whether to watch it."""

        path: str = Field(min_length=1, examples=["endpoints.yaml"])
        """The path of the file, relative to the working directory."""
        watch_file: bool = False
        """Watch the file for changes. Replaced files and symbolic links are followed."""

    def __init__(self, params: Params, files: EndpointsFiles) -> None:
        self._path = Path(params.path)
        self._watch = params.watch_file
        self._files = files
        self._last_error = ""
        """The error that was logged last, empty after a valid version."""
        self._log = structlog.get_logger("pointsman.file-discovery")

    def check(self) -> None:
        """Reads and validates the file. Raises `DiscoveryError`."""
        self._files.read(self._path)

    async def discover(self, sink: EndpointSink) -> None:
        """Passes the endpoints to `sink`, and if the file is watched, those of each valid later version."""
        if not self._watch:
            sink.replace_all(self._files.read(self._path))
            return
        async with aclosing(self._files.versions(self._path, self._reject)) as versions:
            sink.replace_all(await anext(versions))
            async for endpoints in versions:
                self._last_error = ""
                sink.replace_all(endpoints)
                self._log.info("endpoints read", path=str(self._path), endpoints=len(endpoints))

    def _reject(self, error: DiscoveryError) -> None:
        if str(error) != self._last_error:
            self._last_error = str(error)
            self._log.error("endpoint file rejected", path=str(self._path), reason=self._last_error)
