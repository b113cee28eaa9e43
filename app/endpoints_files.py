"""Reads files that list endpoints, and follows their changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from app.domain.endpoint import Endpoint
from app.extension.fleet import DiscoveryError
from app.settings.endpoints_file import EndpointEntry, EndpointsFile, read_endpoints_file
from app.settings.errors import Faults
from app.watching import file_changes

SIZE_LIMIT = 1024 * 1024
"""Maximum size of a file in bytes."""

SETTLE = 0.1
"""Seconds without a further change before a changed file is read."""


class LocalEndpointsFiles:
    """The service `EndpointsFiles` for files of this machine."""

    def read(self, path: Path) -> Sequence[Endpoint]:
        """The endpoints in the file. Raises `DiscoveryError`."""
        return _endpoints(path, _content(path))

    async def versions(
        self, path: Path, on_invalid: Callable[[DiscoveryError], None]
    ) -> AsyncGenerator[Sequence[Endpoint]]:
        """The endpoints of the current version, then of each later one. Raises `DiscoveryError`."""
        first = _content(path)
        yield _endpoints(path, first)
        changes = file_changes(lambda: [path], lambda: SETTLE, {path: first}, limit=SIZE_LIMIT + 1)
        async with aclosing(changes):
            async for contents in changes:
                content = contents[path]
                try:
                    endpoints = _endpoints(path, _content(path) if content is None else content)
                except DiscoveryError as error:
                    on_invalid(error)
                else:
                    yield endpoints


def _content(path: Path) -> bytes:
    """At most one byte more than the size limit."""
    try:
        with path.open("rb") as file:
            return file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise DiscoveryError(f"{path}: {error.strerror or error}") from error


def _endpoints(path: Path, content: bytes) -> Sequence[Endpoint]:
    if len(content) > SIZE_LIMIT:
        raise DiscoveryError(f"{path}: larger than {SIZE_LIMIT} bytes")
    faults = Faults()
    entries = read_endpoints_file(content, str(path), faults, EndpointsFile[EndpointEntry])
    if faults:
        raise DiscoveryError("; ".join(map(str, faults.errors)))
    return [entry.endpoint() for entry, _ in entries]
