"""`file-discovery`: reads endpoints from a YAML or JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import structlog
import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from watchfiles import awatch

from pointsman import DiscoveryError, Endpoint, EndpointSink, PluginParams, parse_address, plugin

SIZE_LIMIT = 1024 * 1024
"""The maximum size of the file in bytes."""

STEP = 100
"""Milliseconds between two checks for file system events."""

REREAD_EVERY = 5000
"""Milliseconds after which the file is read again without an event: some bind mounts don't report changes."""


def _port(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


Port = Annotated[int, BeforeValidator(_port), Field(ge=1, le=65535)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    namespace: str = "default"
    address: Annotated[str, AfterValidator(parse_address)]
    port: Port
    metrics_port: Port | None = Field(default=None, alias="metricsPort")
    labels: dict[str, str] = Field(default_factory=dict)

    def endpoint(self) -> Endpoint:
        name = self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"
        return Endpoint(name, self.address, self.port, self.labels, self.metrics_port)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    endpoints: list[_Entry]


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

    def __init__(self, params: Params) -> None:
        self._path = Path(params.path)
        self._watch = params.watch_file
        self._last_error = ""
        """The error that was logged last. It is not logged again each time the file is read."""
        self._log = structlog.get_logger("pointsman.file-discovery")

    def check(self) -> None:
        """Reads and validates the file. Raises `DiscoveryError`."""
        _read(self._path)

    async def discover(self, sink: EndpointSink) -> None:
        """Passes the endpoints to `sink`, and if the file is watched, those of each valid later version."""
        content, endpoints = _read(self._path)
        sink.replace_all(endpoints)
        if not self._watch:
            return
        folder = self._path.parent
        async for _ in awatch(folder, recursive=False, step=STEP, rust_timeout=REREAD_EVERY, yield_on_timeout=True):
            content = self._reread(sink, content)

    def _reread(self, sink: EndpointSink, content: bytes) -> bytes:
        try:
            new_content, endpoints = _read(self._path, known=content)
        except _UnchangedError:
            return content
        except DiscoveryError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                self._log.error("endpoint file rejected", path=str(self._path), reason=self._last_error)
            return error.content if isinstance(error, _InvalidFileError) else content
        self._last_error = ""
        sink.replace_all(endpoints)
        self._log.info("endpoints read", path=str(self._path), endpoints=len(endpoints))
        return new_content


class _UnchangedError(Exception):
    pass


class _DuplicateNameError(Exception):
    pass


class _InvalidFileError(DiscoveryError):
    def __init__(self, message: str, content: bytes) -> None:
        super().__init__(message)
        self.content = content


def _read(path: Path, known: bytes | None = None) -> tuple[bytes, Sequence[Endpoint]]:
    """The file's bytes and endpoints. Raises `DiscoveryError`, and `_UnchangedError` if the bytes are `known`."""
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise DiscoveryError(f"{path}: {error.strerror or error}") from error
    if content == known:
        raise _UnchangedError
    if len(content) > SIZE_LIMIT:
        raise _InvalidFileError(f"{path}: larger than {SIZE_LIMIT} bytes", content)
    try:
        return content, _endpoints(yaml.safe_load(content))
    except RecursionError as error:
        raise _InvalidFileError(f"{path}: nested too deep", content) from error
    except yaml.YAMLError as error:
        raise _InvalidFileError(f"{path}: {' '.join(str(error).split())}", content) from error
    except ValidationError as error:
        raise _InvalidFileError(f"{path}: {'; '.join(_messages(error))}", content) from error
    except _DuplicateNameError as error:
        raise _InvalidFileError(f"{path}: {error}", content) from error
    except Exception as error:
        # PyYAML's constructors raise any exception, such as KeyError for `!!bool maybe`.
        raise _InvalidFileError(f"{path}: invalid value: {type(error).__name__}: {error}", content) from error


def _endpoints(data: object) -> Sequence[Endpoint]:
    endpoints = [entry.endpoint() for entry in _File.model_validate(data).endpoints]
    seen: set[str] = set()
    for endpoint in endpoints:
        if endpoint.name in seen:
            raise _DuplicateNameError(f"two endpoints have the name {endpoint.name!r}")
        seen.add(endpoint.name)
    return endpoints


def _messages(error: ValidationError) -> list[str]:
    shown = []
    for fault in error.errors(include_url=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        shown.append(f"{path.lstrip('.') or 'the file'}: {fault['msg'].removeprefix('Value error, ')}")
    return shown
