"""Builders of what a plugin meets; import them from `pointsman.testing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.domain.candidates import Candidates, Roster, Snapshot
from app.domain.decision import Decision, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, AnyFactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest

NO_COUNTS: Mapping[str, int] = {}


class FakeClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds, as set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets `seconds` pass."""
        self._now += seconds


class FakePool:
    """A pool of fixed endpoints, as producers get one."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._names = frozenset(candidates.names)

    @property
    def names(self) -> frozenset[str]:
        """Names of all its endpoints."""
        return self._names

    def candidates(self, facts: Facts = NO_FACTS) -> Candidates:  # noqa: ARG002 - facts are in the candidates
        """All its endpoints."""
        return self._candidates

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name."""
        return next((endpoint for endpoint in self._candidates if endpoint.name == name), None)

    def incarnation(self, name: str, /) -> int:
        """The same for ever: nothing goes down here."""
        return int(name in self._names)


def make_endpoint(
    name: str = "a", *, address: str = "127.0.0.1", port: int = 8000, labels: Mapping[str, str] | None = None
) -> Endpoint:
    """An endpoint; nothing listens there."""
    return Endpoint(name, address, port, labels or {})


def make_request(
    prompt: str | bytes = "Which track does the night train take?",
    *,
    model: str = "demo",
    id: str = "test",  # noqa: A002 - the field's name
    headers: Mapping[str, str] | None = None,
    facts: Mapping[AnyFactKey, object] | None = None,
    **fields: Any,
) -> InferenceRequest:
    """A chat request with one prompt; header names are made lower-case."""
    return InferenceRequest(
        id=id,
        path="/v1/chat/completions",
        model=model,
        prompts=(prompt.encode() if isinstance(prompt, str) else prompt,),
        headers={name.lower(): value for name, value in (headers or {}).items()},
        facts=Facts(facts or {}),
        **fields,
    )


def make_candidates(
    *endpoints: Endpoint | str,
    waiting: Sequence[float] | None = None,
    running: Sequence[float] | None = None,
    kv_cache_usage: Sequence[float] | None = None,
    metrics_age: float = 0.0,
    in_flight: Mapping[str, int] = NO_COUNTS,
    facts: Mapping[AnyFactKey, object] | None = None,
    metrics: Sequence[EndpointMetrics | None] | None = None,
) -> Candidates:
    """Candidates with the columns given, one number per endpoint; a name stands for an endpoint of that name.

    A column that is not given is 0 for all. NaN makes an endpoint unknown.
    """
    row = tuple(make_endpoint(e, port=8000 + i) if isinstance(e, str) else e for i, e in enumerate(endpoints))
    load = [0.0] * len(row)
    snapshot = Snapshot(
        Roster(row),
        waiting=np.array(load if waiting is None else waiting, np.float64),
        running=np.array(load if running is None else running, np.float64),
        kv_cache_usage=np.array(load if kv_cache_usage is None else kv_cache_usage, np.float64),
        read_at=np.full(len(row), -metrics_age),
        metrics=tuple(metrics) if metrics is not None else (None,) * len(row),
    )
    return Candidates(snapshot, in_flight=lambda name: in_flight.get(name, 0), facts=Facts(facts or {}))


def make_decision(*picked: Endpoint | str, profile: str = "default") -> Decision:
    """A decision for the first of `picked`."""
    candidates = make_candidates(*picked)
    empty = np.zeros(0)
    scored = Scored(candidates, np.zeros(len(candidates)))
    result = ProfileResult(profile, tuple(candidates), (), scored, (), empty, np.zeros((0, len(candidates))))
    return Decision(profile, {profile: result})


def make_outcome(ending: Ending = Ending.COMPLETED, *, status: int = 200) -> Outcome:
    """The end of a request that took a second."""
    return Outcome(ending, 1.0, status=status, first_byte=0.1)
