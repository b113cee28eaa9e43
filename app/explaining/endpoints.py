"""The file that says which endpoints there are, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from app.domain.addresses import parse_address
from app.domain.endpoint import Endpoint
from app.domain.facts import AnyFactKey, EndpointFactKey
from app.domain.metrics import EndpointMetrics
from app.explaining.explanation import COLUMN_FACTS, GivenEndpoint
from app.extension.facts import IN_FLIGHT_REQUESTS
from app.settings.errors import Faults, UsageError
from app.settings.keys import normalise
from app.settings.reader import read_yaml
from app.settings.shapes import Shape
from app.settings.tree import Node, locate, plain
from app.settings.types import Many, Section
from app.settings.validation import report

MOST_IN_FLIGHT = 100_000


def _port(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


Port = Annotated[int, BeforeValidator(_port), Field(ge=1, le=65535)]


class _Metrics(Section):
    waiting: float | None = Field(default=None, ge=0)
    running: float | None = Field(default=None, ge=0)
    kv_cache_usage: float | None = Field(default=None, ge=0, le=1)
    engine: str = ""
    block_size: int | None = Field(default=None, ge=1)
    num_blocks: int | None = Field(default=None, ge=0)
    running_adapters: Many[str] = ()
    waiting_adapters: Many[str] = ()
    max_adapters: int = Field(default=0, ge=0)

    def reading(self) -> EndpointMetrics:
        return EndpointMetrics(
            waiting=self.waiting,
            running=self.running,
            kv_cache_usage=self.kv_cache_usage,
            engine=self.engine,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            running_adapters=frozenset(self.running_adapters),
            waiting_adapters=frozenset(self.waiting_adapters),
            max_adapters=self.max_adapters,
        )


class _Entry(Section):
    name: str = Field(min_length=1)
    namespace: str = "default"
    address: Annotated[str, AfterValidator(parse_address)]
    port: Port
    metrics_port: Port | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    metrics: _Metrics | None = None
    in_flight: int | None = Field(default=None, ge=0, le=MOST_IN_FLIGHT)
    models: Many[str] | None = None
    facts: dict[str, float] = Field(default_factory=dict)

    def endpoint(self) -> Endpoint:
        name = self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"
        return Endpoint(name, self.address, self.port, self.labels, self.metrics_port)


class _File(Section):
    endpoints: Many[_Entry]


def read_endpoints(file: str, known: Sequence[AnyFactKey], faults: Faults) -> Sequence[GivenEndpoint]:
    """The endpoints of `file`; what is wrong in it goes to `faults`, and then there may be none.

    `known` are the facts that can be given. Raises `UsageError` for a file that can't be read.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    told = len(faults.all)
    read = read_yaml(content, file, faults)
    if len(faults.all) > told:
        return ()
    tree = normalise(read, Shape("model", model=_File), faults, lambda *_: "")
    try:
        entries = _File.model_validate(plain(tree)).endpoints
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            report(fault, tree, faults)
        return ()
    reader = _Reader(tree, [key for key in known if isinstance(key, EndpointFactKey)], faults)
    return [reader.given(index, entry) for index, entry in enumerate(entries)]


class _Reader:
    """Turns entries into endpoints, and sees that they fit each other and the configuration."""

    def __init__(self, tree: Node, known: Sequence[EndpointFactKey], faults: Faults) -> None:
        self._tree = tree
        self._known = known
        self._faults = faults
        self._names: set[str] = set()

    def given(self, index: int, entry: _Entry) -> GivenEndpoint:
        endpoint = entry.endpoint()
        if endpoint.name in self._names:
            place = locate(self._tree, ("endpoints", index, "name"))
            self._faults.error(place, f"two endpoints have the name {endpoint.name!r}")
        self._names.add(endpoint.name)
        return GivenEndpoint(
            endpoint,
            metrics=entry.metrics.reading() if entry.metrics is not None else None,
            in_flight=entry.in_flight or 0,
            models=frozenset(entry.models) if entry.models is not None else None,
            facts=self._facts(index, entry),
        )

    def _facts(self, index: int, entry: _Entry) -> dict[EndpointFactKey, float]:
        """By key. Requests in flight are what their producer would have counted; a name with its producer wins over a
        bare one."""
        facts: dict[EndpointFactKey, float] = {}
        if entry.in_flight is not None:
            facts |= {key: float(entry.in_flight) for key in self._known if key.name == IN_FLIGHT_REQUESTS.name}
        for name, value in entry.facts.items():
            keys = [key for key in self._known if name in (key.name, str(key))]
            if not keys:
                self._refuse(index, name)
            facts |= {key: value for key in keys if name == str(key) or str(key) not in entry.facts}
        return facts

    def _refuse(self, index: int, name: str) -> None:
        place = locate(self._tree, ("endpoints", index, "facts", name))
        if name.partition("/")[0] in COLUMN_FACTS:
            self._faults.error(place, f"the fact {name!r} is read from the metrics", "give it under 'metrics'")
            return
        known = f"known: {', '.join(map(str, self._known))}" if self._known else "it has to do with no such facts"
        self._faults.error(place, f"the configuration has no fact {name!r} of endpoints", known)
