"""`inflight-load-producer`: requests and tokens that this process has in flight to each endpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pydantic import Field

from pointsman import (
    IN_FLIGHT_REQUESTS,
    IN_FLIGHT_TOKENS,
    PREFIX_HITS,
    PREFIX_SHAPE,
    UNCACHED_TOKENS,
    AnyFactKey,
    Decision,
    InferenceRequest,
    InFlight,
    PluginName,
    PluginParams,
    Pool,
    plugin,
)

PREFILL_PROFILE = "prefill"
"""The prefill endpoint has done its part of the request at the first token."""


class _Entry(NamedTuple):
    endpoint: str
    profile: str
    tokens: int


class _PerName(Mapping[str, float]):
    """A mapping whose values are computed on demand."""

    def __init__(self, names: Collection[str], value: Callable[[str], float]) -> None:
        self._names = names
        self._value = value

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        return self._value(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@plugin("inflight-load-producer")
class InflightLoadProducer:
    """Counts requests and estimated tokens in flight, from the decision to the end of the response.

    Unlike the engines' metrics the counts are never late. They cover the picks of every profile, and include requests
    that were in flight before the configuration was reloaded.
    """

    class Params(PluginParams):
        """How tokens are estimated."""

        add_estimated_output_tokens: bool = False
        """Add an estimate of the response's tokens."""
        output_ratio: float = Field(default=1.5, ge=0.0)
        """Estimated response tokens per prompt token."""
        max_estimated_output_tokens: int | None = Field(default=None, ge=0)
        """Upper bound on that estimate. The request's own token limit bounds it too."""
        prefix_match_info_producer_name: str = ""
        """The producer whose prefix matches are subtracted from a request's tokens; by default
        `approx-prefix-cache-producer`."""
        sync_cross_replica_state: bool = True
        """Accepted for compatibility and ignored: each replica counts its own requests."""

    @classmethod
    def produces(cls, name: str, params: Params) -> tuple[AnyFactKey, ...]:  # noqa: ARG003
        """The counts, under this instance's name."""
        return (IN_FLIGHT_REQUESTS.of(name), IN_FLIGHT_TOKENS.of(name), UNCACHED_TOKENS.of(name))

    @classmethod
    def wants(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The prefix matches, if another plugin has them produced."""
        producer = params.prefix_match_info_producer_name
        return (PREFIX_HITS.of(producer), PREFIX_SHAPE.of(producer))

    def __init__(self, params: Params, name: PluginName, in_flight: InFlight) -> None:
        self._params = params
        self._name = name
        self._in_flight = in_flight
        self._keys = (IN_FLIGHT_REQUESTS.of(name), IN_FLIGHT_TOKENS.of(name), UNCACHED_TOKENS.of(name))
        self._hits = PREFIX_HITS.of(params.prefix_match_info_producer_name)
        self._shape = PREFIX_SHAPE.of(params.prefix_match_info_producer_name)
        self._requests: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._entries: dict[int, list[_Entry]] = {}

    async def start(self) -> None:
        """Counts the requests that are in flight already, and follows them from now on."""
        self._in_flight.follow(self, self._name)

    async def stop(self) -> None:
        """Counts no more."""
        self._in_flight.unfollow(self)

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Live counts, and the uncached tokens of this request for each endpoint."""
        requests, tokens, uncached = self._keys
        return {
            requests: MappingProxyType(self._requests),
            tokens: MappingProxyType(self._tokens),
            uncached: _PerName(pool.names, lambda name: self._uncached(request, name)),
        }

    def on_entered(self, request: InferenceRequest, decision: Decision) -> None:
        """Counts the first pick of every profile."""
        entries = [
            _Entry(result.endpoints[0].name, profile, self._estimate(request, result.endpoints[0].name))
            for profile, result in decision.results.items()
            if result.endpoints
        ]
        self._entries[id(decision)] = entries
        for entry in entries:
            _add(self._requests, entry.endpoint, 1)
            _add(self._tokens, entry.endpoint, entry.tokens)

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        """The prompt was processed: prefill picks are done; the others keep their request and the estimated output."""
        entries = self._entries.get(id(decision), [])
        kept = []
        for entry in entries:
            if entry.profile == PREFILL_PROFILE and len(entries) > 1:
                self._release(entry)
            elif self._params.add_estimated_output_tokens:
                kept.append(entry)
            else:
                _add(self._tokens, entry.endpoint, -entry.tokens)
                kept.append(entry._replace(tokens=0))
        self._entries[id(decision)] = kept

    def on_left(self, decision: Decision) -> None:
        """Subtracts whatever is left."""
        for entry in self._entries.pop(id(decision), ()):
            self._release(entry)

    def _release(self, entry: _Entry) -> None:
        _add(self._requests, entry.endpoint, -1)
        _add(self._tokens, entry.endpoint, -entry.tokens)

    def _estimate(self, request: InferenceRequest, endpoint: str) -> int:
        return self._uncached(request, endpoint) + self._output(request)

    def _uncached(self, request: InferenceRequest, endpoint: str) -> int:
        hits = request.facts.per_endpoint(self._hits).get(endpoint, 0)
        shape = request.facts.get(self._shape)
        return max(request.prompt_tokens - int(hits) * shape.block_tokens, 0)

    def _output(self, request: InferenceRequest) -> int:
        if not self._params.add_estimated_output_tokens:
            return 0
        guess = round(request.prompt_tokens * self._params.output_ratio)
        bounds = (request.max_output_tokens, self._params.max_estimated_output_tokens)
        return min([guess, *(bound for bound in bounds if bound is not None)])


def _add(counts: dict[str, int], name: str, amount: int) -> None:
    """Adds, and forgets an endpoint with nothing left, so that gone endpoints leave nothing behind."""
    total = counts.get(name, 0) + amount
    if total > 0:
        counts[name] = total
    else:
        counts.pop(name, None)
