"""The extension points before and after a decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from app.domain.decision import Decision
from app.domain.errors import RoutingError
from app.domain.facts import AnyFactKey
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest
from app.extension.services import Pool


@runtime_checkable
class Producer(Protocol):
    """Produces facts about a request. This is the only place for I/O and waiting before a decision.

    The class declares its facts: see `ProducesFacts`, `NeedsFacts` and `WantsFacts`.
    """

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Facts by key. `request` already has the facts of the producers that this one needs."""


@runtime_checkable
class OnScheduled(Protocol):
    """Called right after each decision, before any other task runs. Must not block."""

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """Called once per decision, so again when a request is retried."""


@runtime_checkable
class OnFirstToken(Protocol):
    """Called at the first content of the response: the first token of a stream, else the first byte of the body.

    Behind a proxy that does not pass on bodies as they arrive, it is called at the response head. Error responses have
    no content. Must not block.
    """

    def on_first_token(self, request: InferenceRequest, decision: Decision) -> None:
        """Called at most once per request."""


@runtime_checkable
class OnFinished(Protocol):
    """Called when a scheduled request ends. Must not block."""

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Called exactly once for each `on_scheduled`, with the outcome of that attempt."""


@runtime_checkable
class OnRefused(Protocol):
    """Called for each request that gets an error response of the router. Must not block."""

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """Called once for a request, unless `on_finished` is called for it with a final outcome."""


@runtime_checkable
class Lifecycle(Protocol):
    """Optional for any plugin: starts and stops with its generation."""

    async def start(self) -> None:
        """Called before the first request of the generation."""

    async def stop(self) -> None:
        """Called after the last request of the generation; also if `start` was cancelled."""


@runtime_checkable
class Successor(Protocol):
    """Optional for a plugin that learns: it inherits what its predecessor learnt when the configuration is reloaded."""

    def inherit_from(self, predecessor: Any) -> None:
        """Takes over what `predecessor` learnt, as far as it still fits the parameters.

        Called before `start`. `predecessor` is an instance of the same class, of the previous configuration: the one of
        the same name, or whatever its name if both configurations have just one. It goes on serving until its last
        request has finished, and goes on alone if the reload fails. So don't change it; share objects with it.
        """
