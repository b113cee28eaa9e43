"""The endpoints for `explain`: a file as for `file-discovery`, with what is assumed of each endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from app.domain.facts import AnyFactKey, EndpointFactKey
from app.domain.metrics import EndpointMetrics
from app.explaining.explanation import COLUMN_FACTS, GivenEndpoint
from app.extension.facts import IN_FLIGHT_REQUESTS
from app.settings.endpoints_file import EndpointEntry, EndpointsFile, read_endpoints_file
from app.settings.errors import Faults, UsageError
from app.settings.tree import Node, locate
from app.settings.types import Many, Section

MOST_IN_FLIGHT = 100_000


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


class _Entry(EndpointEntry):
    metrics: _Metrics | None = None
    in_flight: int | None = Field(default=None, ge=0, le=MOST_IN_FLIGHT)
    models: Many[str] | None = None
    facts: dict[str, float] = Field(default_factory=dict)


def read_endpoints(file: str, known: Sequence[AnyFactKey], faults: Faults) -> Sequence[GivenEndpoint]:
    """The endpoints in `file`. Errors are added to `faults`; the result may then be incomplete or empty.

    `known` are the facts that an entry may set. Raises `UsageError` if the file can't be read.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    facts = _FactReader([key for key in known if isinstance(key, EndpointFactKey)], faults)
    return [
        GivenEndpoint(
            entry.endpoint(),
            metrics=entry.metrics.reading() if entry.metrics is not None else None,
            in_flight=entry.in_flight or 0,
            models=frozenset(entry.models) if entry.models is not None else None,
            facts=facts.read(entry, node),
        )
        for entry, node in read_endpoints_file(content, file, faults, EndpointsFile[_Entry])
    ]


class _FactReader:
    """Resolves the names of the facts in an entry. Adds errors to `faults`."""

    def __init__(self, known: Sequence[EndpointFactKey], faults: Faults) -> None:
        self._known = known
        self._faults = faults

    def read(self, entry: _Entry, node: Node) -> dict[EndpointFactKey, float]:
        """The facts by key. `inFlight` sets the fact that counts requests in flight. A name with its producer takes
        precedence over a bare one."""
        facts: dict[EndpointFactKey, float] = {}
        if entry.in_flight is not None:
            facts |= {key: float(entry.in_flight) for key in self._known if key.name == IN_FLIGHT_REQUESTS.name}
        for name, value in entry.facts.items():
            keys = [key for key in self._known if name in (key.name, str(key))]
            if not keys:
                self._refuse(node, name)
            facts |= {key: value for key in keys if name == str(key) or str(key) not in entry.facts}
        return facts

    def _refuse(self, node: Node, name: str) -> None:
        place = locate(node, ("facts", name))
        if name.partition("/")[0] in COLUMN_FACTS:
            self._faults.error(place, f"the fact {name!r} is read from the metrics", "give it under 'metrics'")
            return
        known = f"known: {', '.join(map(str, self._known))}" if self._known else "it has to do with no such facts"
        self._faults.error(place, f"the configuration has no fact {name!r} of endpoints", known)
