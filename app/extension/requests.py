"""The extension points around a decision: before it, and what learns from how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from app.domain.decision import Decision
from app.domain.errors import RoutingError
from app.domain.facts import AnyFactKey
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest
from app.extension.services import Pool


@runtime_checkable
class Producer(Protocol):
    """Finds facts about a request. All waiting and all I/O before a decision happen here.

    A class says what it gives and takes by `produces(name, params)` and `needs(params)`, class methods or plain
    class attributes holding a tuple of fact keys.
    """

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Facts by key. The request carries the facts of the producers that this one needs."""


@runtime_checkable
class OnScheduled(Protocol):
    """Told of each decision, in the same step of the event loop. Must not block."""

    def on_scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """Called once per decision: again when a failed attempt is scheduled anew."""


@runtime_checkable
class OnFirstByte(Protocol):
    """Told when an endpoint begins to answer. Must not block."""

    def on_first_byte(self, request: InferenceRequest, decision: Decision) -> None:
        """Called at most once per request."""


@runtime_checkable
class OnFinished(Protocol):
    """Told how a scheduled request ended. Must not block."""

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Called exactly once for each `on_scheduled`, with the outcome of that attempt."""


@runtime_checkable
class OnRefused(Protocol):
    """Told of each request that was answered without an endpoint's answer. Must not block."""

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """Called once for a request that no `on_finished` with a final outcome is called for."""


@runtime_checkable
class Lifecycle(Protocol):
    """Optional for any plugin: something to start and stop."""

    async def start(self) -> None:
        """Called before the first request of its generation."""

    async def stop(self) -> None:
        """Called after the last request of its generation; also if `start` was cancelled."""
