"""`file-discovery`: endpoints listed in a YAML or JSON file."""

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
"""Bytes of the file that are read at most."""

STEP = 100
"""Milliseconds between two looks at what was noticed."""

LOOK_EVERY = 5000
"""Milliseconds after which the file is looked at even if no change was noticed, as on some bind mounts."""


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
    """Takes the pool's endpoints from a file, and follows its changes if asked to.

    The file holds `endpoints:`, a list of `name`, `address`, `port` and, if wanted, `namespace`, `labels` and
    `metricsPort`. A changed file with a fault in it is not taken; the endpoints stay as they were.
    """

    class Params(PluginParams):
        """Which file."""

        path: str = Field(min_length=1, examples=["endpoints.yaml"])
        """The file; relative to the working directory."""
        watch_file: bool = False
        """Follow changes of the file, replaced files and swapped symbolic links included."""

    def __init__(self, params: Params) -> None:
        self._path = Path(params.path)
        self._watch = params.watch_file
        self._told = ""
        """The reason logged last; the same one is not logged again at every look."""
        self._log = structlog.get_logger("pointsman.file-discovery")

    def check(self) -> None:
        """Reads the file and drops what it says."""
        _read(self._path)

    async def discover(self, sink: EndpointSink) -> None:
        """Gives the file's endpoints, then, if it is watched, those of every good later version."""
        content, endpoints = _read(self._path)
        sink.replace_all(endpoints)
        if not self._watch:
            return
        folder = self._path.parent
        async for _ in awatch(folder, recursive=False, step=STEP, rust_timeout=LOOK_EVERY, yield_on_timeout=True):
            content = self._follow(sink, content)

    def _follow(self, sink: EndpointSink, content: bytes) -> bytes:
        try:
            now, endpoints = _read(self._path, known=content)
        except _Unchanged:
            return content
        except DiscoveryError as error:
            if str(error) != self._told:
                self._told = str(error)
                self._log.error("endpoint file not taken", path=str(self._path), reason=self._told)
            return error.content if isinstance(error, _BadContentError) else content
        self._told = ""
        sink.replace_all(endpoints)
        self._log.info("endpoints read", path=str(self._path), endpoints=len(endpoints))
        return now


class _Unchanged(Exception):  # noqa: N818 - no error
    pass


class _TwiceError(Exception):
    pass


class _BadContentError(DiscoveryError):
    def __init__(self, message: str, content: bytes) -> None:
        super().__init__(message)
        self.content = content


def _read(path: Path, known: bytes | None = None) -> tuple[bytes, Sequence[Endpoint]]:
    """The file's bytes and endpoints. Raises `DiscoveryError`; `_Unchanged` if the bytes are `known`."""
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        raise DiscoveryError(f"{path}: {error.strerror or error}") from error
    if content == known:
        raise _Unchanged
    if len(content) > SIZE_LIMIT:
        raise _BadContentError(f"{path}: larger than {SIZE_LIMIT} bytes", content)
    try:
        return content, _endpoints(yaml.safe_load(content))
    except RecursionError as error:
        raise _BadContentError(f"{path}: nested too deep", content) from error
    except yaml.YAMLError as error:
        raise _BadContentError(f"{path}: {' '.join(str(error).split())}", content) from error
    except ValidationError as error:
        raise _BadContentError(f"{path}: {'; '.join(_sentences(error))}", content) from error
    except _TwiceError as error:
        raise _BadContentError(f"{path}: {error}", content) from error
    except Exception as error:
        # PyYAML's constructors raise whatever they stumble over, as KeyError for `!!bool maybe`.
        raise _BadContentError(f"{path}: a value can't be read: {type(error).__name__}: {error}", content) from error


def _endpoints(data: object) -> Sequence[Endpoint]:
    endpoints = [entry.endpoint() for entry in _File.model_validate(data).endpoints]
    seen: set[str] = set()
    for endpoint in endpoints:
        if endpoint.name in seen:
            raise _TwiceError(f"two endpoints have the name {endpoint.name!r}")
        seen.add(endpoint.name)
    return endpoints


def _sentences(error: ValidationError) -> list[str]:
    shown = []
    for fault in error.errors(include_url=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        shown.append(f"{path.lstrip('.') or 'the file'}: {fault['msg'].removeprefix('Value error, ')}")
    return shown
