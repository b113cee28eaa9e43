"""The collaborators a plugin may ask for: name one as the type of a constructor parameter."""

from __future__ import annotations

from collections.abc import Sequence
from ssl import SSLContext
from typing import NewType, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from app.domain.candidates import Candidates
from app.domain.endpoint import Endpoint
from app.domain.facts import Facts

T = TypeVar("T")

PluginName = NewType("PluginName", str)
"""The plugin's instance name, for the keys of the facts it produces."""


class Clock(Protocol):
    """Time that tests can set."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; its zero means nothing."""


class Random(Protocol):
    """Randomness that tests can seed. `random.Random` is one."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def randrange(self, stop: int, /) -> int:
        """An integer in [0, stop)."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """`k` members of `population`, each at most once, in random order."""


class HttpResponse(Protocol):
    """A whole answer."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The body, decompressed."""


class HttpClient(Protocol):
    """Short requests to model servers; connections are kept and limited."""

    async def get(
        self,
        url: str,
        *,
        timeout: float,  # noqa: ASYNC109
        tls: SSLContext | bool = True,
        socket: str | None = None,
    ) -> HttpResponse:
        """Reads `url` whole, redirects not followed. `tls` False trusts any certificate; `socket` is the path of a
        Unix socket to connect to.

        Raises `ConnectionError` when nothing answered there, `TimeoutError` when it took over `timeout` seconds,
        another `OSError` when the answer broke off or is too large.
        """


class InFlight(Protocol):
    """The requests of this process that an endpoint has not finished."""

    def count(self, endpoint: str, /) -> int:
        """How many, by endpoint name."""


class Pool(Protocol):
    """The endpoints that requests may be sent to."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the endpoints that are up; the same object until the list is touched."""

    def candidates(self, facts: Facts = ...) -> Candidates:
        """The endpoints that are up, with `facts`."""

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name, up or down."""

    def incarnation(self, name: str, /) -> int:
        """A number that changes whenever what the endpoint had in memory is gone: it was down, or is another one."""


MetricsRegistry = CollectorRegistry
"""Where a plugin registers its Prometheus instruments: its own, so that names need not differ between instances."""

__all__ = [
    "Clock",
    "HttpClient",
    "HttpResponse",
    "InFlight",
    "MetricsRegistry",
    "PluginName",
    "Pool",
    "Random",
]
