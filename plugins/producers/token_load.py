"""`token-load-producer`: the prompt tokens each endpoint has ahead of a request, and how long they take."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

import numpy as np
from prometheus_client import Histogram
from pydantic import Field

from plugins.shared.adapter_loads import AdapterLoads
from plugins.shared.columns import ComputedColumn
from plugins.shared.other_load import OtherLoad
from plugins.shared.penalties import Penalties
from plugins.shared.prefill_queues import FEW, PrefillQueues
from plugins.shared.prefill_rates import PrefillRates
from plugins.shared.prefix_memory import prefills_at
from plugins.shared.prompt_queue import Prompt
from plugins.shared.prompt_size import PromptSize
from plugins.shared.token_density import TokenDensity
from pointsman import (
    EXPECTED_TTFT,
    PREFILL_RATE,
    PREFIX_HITS,
    PREFIX_SHAPE,
    TOKEN_LOAD,
    UNCACHED_TOKENS,
    AnyFactKey,
    Candidates,
    Clock,
    Column,
    Decision,
    Ending,
    InferenceRequest,
    InFlight,
    MetricsRegistry,
    Outcome,
    PluginName,
    PluginParams,
    Pool,
    plugin,
)

ERRORS = (-30.0, -10.0, -3.0, -1.0, -0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Upper bounds of the buckets, in seconds."""

RECENT_ERRORS = 16

TOO_MANY_REQUESTS = 429
SERVER_ERRORS = 500


READ_EVERY = 0.1
"""Seconds between two looks at the engines' metrics."""


@plugin("token-load-producer")
class TokenLoadProducer:
    """Estimates when each endpoint would give the first token of a request.

    Keeps the prompts that this process has sent to each endpoint and that have had no first token, in uncached tokens.
    Learns from first tokens how many of them an endpoint processes per second, and from token counts in responses how
    many tokens a prompt has. Needs no metrics; where there are, requests of other clients in an engine's queue count.
    """

    class Params(PluginParams):
        """What is assumed before anything is learnt, and what is taken into account."""

        prefill_rate: float = Field(default=8000.0, gt=0.0)
        """Prompt tokens per second of an endpoint, until it is learnt."""
        prefix_match_info_producer_name: str = ""
        """The producer whose prefix matches are subtracted from a request's tokens; by default
        `approx-prefix-cache-producer`."""
        count_other_requests: bool = True
        """Whether requests in an engine's queue that did not come from this process count as well."""

    @classmethod
    def produces(cls, name: str, params: Params) -> tuple[AnyFactKey, ...]:  # noqa: ARG003
        """The estimates, under this instance's name."""
        return (TOKEN_LOAD.of(name), UNCACHED_TOKENS.of(name), PREFILL_RATE.of(name), EXPECTED_TTFT.of(name))

    @classmethod
    def needs(cls, params: Params) -> tuple[AnyFactKey, ...]:
        """The prefix matches."""
        producer = params.prefix_match_info_producer_name
        return (PREFIX_HITS.of(producer), PREFIX_SHAPE.of(producer))

    def __init__(
        self, params: Params, name: PluginName, in_flight: InFlight, clock: Clock, registry: MetricsRegistry
    ) -> None:
        self._name = name
        self._in_flight = in_flight
        self._clock = clock
        self._hits = PREFIX_HITS.of(params.prefix_match_info_producer_name)
        self._shape = PREFIX_SHAPE.of(params.prefix_match_info_producer_name)
        self._uncached_key, self._expected_key = UNCACHED_TOKENS.of(name), EXPECTED_TTFT.of(name)
        self._load_key, self._rate_key = TOKEN_LOAD.of(name), PREFILL_RATE.of(name)
        self._live: Mapping[AnyFactKey, object] = {}
        self._queues = PrefillQueues(PrefillRates(params.prefill_rate))
        self._density = TokenDensity()
        self._penalties = Penalties()
        self._adapters = AdapterLoads()
        self._metrics: Sequence[object] = ()
        self._others = OtherLoad() if params.count_other_requests else None
        self._prompts: dict[int, Prompt] = {}
        self._errors: dict[str, deque[float]] = {}
        self._names: frozenset[str] = frozenset()
        self._following = False
        self._last_size: PromptSize | None = None
        self._read_at = -math.inf
        self._error_seconds = Histogram(
            "pointsman_expected_ttft_error_seconds",
            "Expected time to first token, less the actual one.",
            buckets=ERRORS,
            registry=registry,
        )

    # -- its life

    def inherit_from(self, predecessor: TokenLoadProducer) -> None:
        """Shares what was learnt of endpoints and tokenizers. The requests in flight come from `InFlight`."""
        if predecessor._queues.rates.learnt:
            self._queues = PrefillQueues(predecessor._queues.rates)
        self._density = predecessor._density
        self._penalties = predecessor._penalties
        self._adapters = predecessor._adapters

    async def start(self) -> None:
        """Counts the requests that are in flight already, and follows them from now on."""
        self._following = False  # what happened before teaches nothing: its times are not known
        self._in_flight.follow(self, self._name)
        self._following = True

    async def stop(self) -> None:
        """Counts no more."""
        self._in_flight.unfollow(self)

    # -- before a decision

    async def produce(self, request: InferenceRequest, pool: Pool) -> Mapping[AnyFactKey, object]:
        """Tokens ahead, the request's uncached tokens, the rate, and the expected time to first token."""
        names = pool.names
        if names is not self._names:
            self._follow(names)
        now = self._clock.now()
        if now >= self._read_at:
            self._read_at = now + READ_EVERY
            self._read(pool.candidates(), now)
        size = self._last_size = self._size(request)
        return {
            **self._live,
            self._uncached_key: ComputedColumn(names, size.uncached),
            self._expected_key: ComputedColumn(names, partial(self._expected, size)),
        }

    def _read(self, candidates: Candidates, now: float) -> None:
        """Takes what the metrics show that has changed since the last time."""
        if candidates.metrics is self._metrics:
            return
        self._metrics = candidates.metrics
        self._adapters.read(candidates)
        if self._others is not None:
            self._others.read(candidates, self._queues, now)

    def _ahead(self, names: tuple[str, ...]) -> Column:
        now = self._clock.now()
        return np.array([self._queues.ahead(name, now) for name in names])

    def _rates(self, names: tuple[str, ...]) -> Column:
        return np.array([self._queues.rates.of(name) for name in names])

    def _expected(self, size: PromptSize, names: tuple[str, ...]) -> Column:
        now = self._clock.now()
        seconds = self._queues.expected(names, size.uncached(names) if len(names) > FEW else size.few(names), now)
        holders = self._adapters.holders(size.adapter)
        if self._penalties or holders is not None:
            for row, name in enumerate(names):
                seconds[row] += self._extra(name, holders, now)
        return seconds

    def _extra(self, name: str, holders: frozenset[str] | None, now: float) -> float:
        """Seconds for a failing endpoint, and for one that has to load the adapter."""
        load = 0.0 if holders is None or name in holders else self._adapters.seconds
        return self._penalties.of(name, now) + load

    # -- after it

    def on_entered(self, request: InferenceRequest, decision: Decision) -> None:
        """Queues the prompt at the endpoint that processes it."""
        endpoint, now = prefills_at(decision), self._clock.now()
        size = self._last_size
        if size is None or size.prompts is not request.prompts:
            size = self._size(request)
        tokens = size.uncached_at(endpoint)
        holders = self._adapters.holders(size.adapter)
        loads = holders is not None and endpoint not in holders
        teaches = self._following and not loads and not size.is_cut(endpoint)
        prompt = Prompt(endpoint, tokens, now, not request.streaming, teaches, loads)
        prompt.expected = self._queues.enter(prompt)
        if loads or self._penalties:
            prompt.expected += self._extra(endpoint, holders, now)
        self._prompts[id(decision)] = prompt
        if self._others is not None:
            self._others.sent(tokens)

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        """Takes the prompt out of the queue and learns from the time it took."""
        prompt = self._prompts.get(id(decision))
        if prompt is None:
            return
        now = self._clock.now()
        measured = exact and self._following and not prompt.silent
        self._queues.first_token(prompt, now, seen=exact)
        if measured:
            self._penalties.worked(prompt.endpoint)
            error = prompt.expected - (now - prompt.entered)
            if prompt.loads:
                self._adapters.learn(self._adapters.seconds - error)
            self._error_seconds.observe(error)
            self._errors.setdefault(prompt.endpoint, deque(maxlen=RECENT_ERRORS)).append(error)

    def on_left(self, decision: Decision) -> None:
        """The attempt ended."""
        prompt = self._prompts.pop(id(decision), None)
        if prompt is not None:
            self._queues.leave(prompt, self._clock.now())

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Learns the tokens of the prompt, and sets an endpoint back that fails."""
        if outcome.usage is not None and outcome.usage.prompt_tokens is not None:
            self._density.learn(request, outcome.usage.prompt_tokens)
        status, name = outcome.status or 0, decision.endpoint.name
        if outcome.ending is Ending.UPSTREAM_FAILED or status >= SERVER_ERRORS or status == TOO_MANY_REQUESTS:
            self._penalties.failed(name, self._clock.now())
        elif outcome.ending is Ending.COMPLETED:
            self._penalties.worked(name)

    def inspect(self, endpoint: str, /) -> Mapping[str, object]:
        """Rate, tokens and requests ahead, penalty, and the errors of the last estimates in seconds."""
        now = self._clock.now()
        errors = self._errors.get(endpoint, ())
        return {
            "prefill_rate": round(self._queues.rates.of(endpoint), 1),
            "tokens_ahead": round(self._queues.ahead(endpoint, now), 1),
            "prompts_ahead": len(self._queues.prompts(endpoint)),
            "penalty_seconds": round(self._penalties.of(endpoint, now), 3),
            "last_errors_seconds": [round(error, 3) for error in errors],
            "mean_error_seconds": round(fmean(errors), 3) if errors else None,
        }

    # -- inside

    def _follow(self, names: frozenset[str]) -> None:
        """Forgets endpoints that are gone or down."""
        self._names = names
        self._live = {
            self._load_key: ComputedColumn(names, self._ahead),
            self._rate_key: ComputedColumn(names, self._rates),
        }
        self._queues.keep_only(names)
        self._errors = {name: errors for name, errors in self._errors.items() if name in names}

    def _size(self, request: InferenceRequest) -> PromptSize:
        shape = request.facts.get(self._shape)
        hits = request.facts.per_endpoint(self._hits)
        return PromptSize(request, self._density.tokens_per_byte(request), hits, shape)
