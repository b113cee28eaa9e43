"""The collaborators a plugin may ask for: name one as the type of a constructor parameter."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import NewType, Protocol, TypeVar, runtime_checkable

from prometheus_client import CollectorRegistry

from app.domain.candidates import Candidates
from app.domain.decision import Decision
from app.domain.endpoint import Endpoint
from app.domain.facts import Facts
from app.domain.request import InferenceRequest
from app.extension.fleet import DiscoveryError

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
    """A whole response."""

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

        Raises `ConnectionError` when nothing accepts the connection, `TimeoutError` after `timeout` seconds, another
        `OSError` when the response is incomplete or too large.
        """


class EndpointsFiles(Protocol):
    """Files that list endpoints, in YAML or JSON."""

    def read(self, path: Path) -> Sequence[Endpoint]:
        """The endpoints in the file, whose names are unique.

        Raises `DiscoveryError` with all errors in the file, each with its line and column.
        """

    def versions(self, path: Path, on_invalid: Callable[[DiscoveryError], None]) -> AsyncGenerator[Sequence[Endpoint]]:
        """The endpoints of the current version, then of each valid later version, once it is completely written.

        Raises `DiscoveryError` if the current version is invalid. A later version that is invalid, or a missing file,
        is passed to `on_invalid`.
        """


@runtime_checkable
class InFlightListener(Protocol):
    """Follows the decisions in flight. Its methods are called in one step of the event loop and must not block."""

    def on_entered(self, request: InferenceRequest, decision: Decision) -> None:
        """A decision was made: the request goes to its endpoints. The object `decision` stays the same to its end."""

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        """The prompt was processed: the first content of the response arrived. Called at most once.

        Not `exact`: only its head did, since the proxy does not pass on bodies as they arrive.
        """

    def on_left(self, decision: Decision) -> None:
        """The attempt ended, however it ended; called exactly once."""


class InFlight(Protocol):
    """The requests of this process that have not ended. They outlive a reload, so a plugin that follows them may be
    rebuilt at any time."""

    def count(self, endpoint: str, /) -> int:
        """Requests in flight to the endpoint of that name."""

    def follow(self, listener: InFlightListener, name: str) -> None:
        """Calls `listener` for every decision in flight, and from now on as requests come and go, until `unfollow`.

        `name` is the plugin's, for reports of its failures. Call it in `start`, not in the constructor.
        """

    def unfollow(self, listener: InFlightListener) -> None:
        """Ends `follow`."""


class Pool(Protocol):
    """The endpoints that requests may be sent to."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the endpoints that are up; the same object until the list changes."""

    def candidates(self, facts: Facts = ...) -> Candidates:
        """The endpoints that are up, with `facts`."""

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name, up or down."""

    def incarnation(self, name: str, /) -> int:
        """A number that changes when the endpoint's memory is lost: it was down, or was replaced."""


MetricsRegistry = CollectorRegistry
"""Where a plugin registers its Prometheus instruments: its own, so that names need not differ between instances."""

__all__ = [
    "Clock",
    "EndpointsFiles",
    "HttpClient",
    "HttpResponse",
    "InFlight",
    "InFlightListener",
    "MetricsRegistry",
    "PluginName",
    "Pool",
    "Random",
]
