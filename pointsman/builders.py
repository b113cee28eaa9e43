"""Builders of requests, endpoints and candidates for tests of plugins. Import them from `pointsman.testing`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson

from app.domain.candidates import Candidates, Roster, Snapshot
from app.domain.decision import Decision, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.facts import NO_FACTS, AnyFactKey, Facts
from app.domain.metrics import EndpointMetrics
from app.domain.outcome import Ending, Outcome
from app.domain.request import InferenceRequest
from app.extension.fleet import DiscoveryError
from app.extension.params import PluginParams

P = TypeVar("P", bound=PluginParams)

NO_REQUESTS: Mapping[str, int] = {}


class FakeClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        """The current time in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Moves the clock forward by `seconds`."""
        self._now += seconds


class FakeEndpointsFiles:
    """Endpoints files with the given versions, whatever their path: each the endpoints, or why it is invalid."""

    def __init__(self, *versions: Sequence[Endpoint] | DiscoveryError) -> None:
        self._versions = versions

    def read(self, path: Path) -> Sequence[Endpoint]:
        """The endpoints of the first version. Raises `DiscoveryError` if it is invalid."""
        first = self._versions[0]
        if isinstance(first, DiscoveryError):
            raise first
        return first

    async def versions(
        self, path: Path, on_invalid: Callable[[DiscoveryError], None]
    ) -> AsyncGenerator[Sequence[Endpoint]]:
        """The endpoints of each valid version. Ends after the last one."""
        yield self.read(path)
        for version in self._versions[1:]:
            if isinstance(version, DiscoveryError):
                on_invalid(version)
            else:
                yield version


class FakePool:
    """A pool with a fixed list of endpoints."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self._names = frozenset(candidates.names)

    @property
    def names(self) -> frozenset[str]:
        """The names of all endpoints."""
        return self._names

    def candidates(self, facts: Facts = NO_FACTS) -> Candidates:
        """All endpoints. `facts` is ignored: the candidates have their own."""
        return self._candidates

    def get(self, name: str, /) -> Endpoint | None:
        """An endpoint by name; None if there is none."""
        return next((endpoint for endpoint in self._candidates if endpoint.name == name), None)

    def incarnation(self, name: str, /) -> int:
        """Never changes: 1 for the pool's endpoints, 0 for others."""
        return int(name in self._names)


def example_params(model: type[P], **values: Any) -> P:
    """Parameters for a plugin: `example_params(MyScorer.Params)`.

    Each field has the value from `values`, which is as in YAML and under the field's name or its name in YAML. Without
    one it has the first of its `Field(examples=[…])`, else its default. Raises `ValidationError`.
    """
    examples = {
        name: field.examples[0]
        for name, field in model.model_fields.items()
        if field.examples and not values.keys() & {name, field.alias}
    }
    return model.model_validate_json(orjson.dumps({**examples, **values}))


def make_endpoint(
    name: str = "a", *, address: str = "127.0.0.1", port: int = 8000, labels: Mapping[str, str] | None = None
) -> Endpoint:
    """An endpoint on loopback, where nothing listens."""
    return Endpoint(name, address, port, labels or {})


def make_request(
    prompt: str | bytes = "Which track does the night train take?",
    *,
    model: str = "demo",
    id: str = "test",  # noqa: A002 - the name of the field
    headers: Mapping[str, str] | None = None,
    facts: Mapping[AnyFactKey, object] | None = None,
    **fields: Any,
) -> InferenceRequest:
    """A chat completions request with one prompt. Header names are converted to lower case."""
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
    in_flight: Mapping[str, int] = NO_REQUESTS,
    facts: Mapping[AnyFactKey, object] | None = None,
    metrics: Sequence[EndpointMetrics | None] | None = None,
) -> Candidates:
    """Candidates with the given columns, one number per endpoint. A string makes an endpoint of that name.

    A column that is not given is 0 for all endpoints; NaN is an unknown value. `metrics_age` is in seconds, `in_flight`
    is the number of requests by endpoint name.
    """
    made = tuple(make_endpoint(e, port=8000 + i) if isinstance(e, str) else e for i, e in enumerate(endpoints))
    zeros = [0.0] * len(made)
    snapshot = Snapshot(
        Roster(made),
        waiting=np.array(zeros if waiting is None else waiting, np.float64),
        running=np.array(zeros if running is None else running, np.float64),
        kv_cache_usage=np.array(zeros if kv_cache_usage is None else kv_cache_usage, np.float64),
        read_at=np.full(len(made), -metrics_age),
        metrics=tuple(metrics) if metrics is not None else (None,) * len(made),
    )
    return Candidates(snapshot, in_flight=lambda name: in_flight.get(name, 0), facts=Facts(facts or {}))


def make_decision(*picked: Endpoint | str, profile: str = "default") -> Decision:
    """A decision of one profile that picked `picked`, best first."""
    candidates = make_candidates(*picked)
    empty = np.zeros(0)
    scored = Scored(candidates, np.zeros(len(candidates)))
    result = ProfileResult(profile, tuple(candidates), (), scored, (), empty, np.zeros((0, len(candidates))))
    return Decision(profile, {profile: result})


def make_outcome(ending: Ending = Ending.COMPLETED, *, status: int = 200) -> Outcome:
    """The outcome of a request that took one second."""
    return Outcome(ending, 1.0, status=status, head=0.05, first_token=0.1)
