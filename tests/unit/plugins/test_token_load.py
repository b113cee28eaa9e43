"""`token-load-producer`: estimates worked out by hand, and what it learns."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from app.domain.metrics import EndpointMetrics
from app.domain.usage import Usage
from app.extension import (
    EXPECTED_TTFT,
    PREFILL_RATE,
    PREFIX_HITS,
    PREFIX_SHAPE,
    TOKEN_LOAD,
    UNCACHED_TOKENS,
    Decision,
    Ending,
    InferenceRequest,
    InspectsEndpoints,
    Outcome,
    PluginName,
    PrefixShape,
)
from app.fleet.pool import EndpointPool
from app.routing.in_flight import InFlightRequests
from plugins.producers.token_load import TokenLoadProducer
from pointsman.testing import FakeClock, make_decision, make_endpoint, make_request
from tests.unit.plugins.given import params_of

ERROR = "pointsman_expected_ttft_error_seconds"
NAME = "token-load-producer"
RATE = 1000.0
SHAPE = PrefixShape(total_blocks=10, block_tokens=64)


class Fleet:
    """A producer over endpoints a, b and c, all at 1,000 tokens per second, and a clock."""

    def __init__(self, *names: str, **params: Any) -> None:
        self.clock = FakeClock()
        self.in_flight = InFlightRequests()
        self.registry = CollectorRegistry()
        self.pool = EndpointPool(clock=self.clock, in_flight=self.in_flight.count)
        self.pool.replace_all([make_endpoint(name) for name in names or "abc"])
        self.producer = self.another(**params)

    def another(self, **params: Any) -> TokenLoadProducer:
        values = params_of(TokenLoadProducer.Params, {"prefillRate": RATE, **params})
        return TokenLoadProducer(values, PluginName(NAME), self.in_flight, self.clock, CollectorRegistry())

    async def facts(self, request: InferenceRequest) -> Any:
        found = await self.producer.produce(request, self.pool)
        return request.with_facts(request.facts.and_(found)).facts

    async def expected(self, request: InferenceRequest) -> dict[str, float]:
        """Seconds by endpoint, as the columns and the mapping say alike."""
        facts = await self.facts(request)
        column = self.pool.candidates(facts).fact(EXPECTED_TTFT)
        found = dict(zip(self.pool.candidates().names, column.tolist(), strict=True))
        assert dict(facts.per_endpoint(EXPECTED_TTFT)) == pytest.approx(found)
        return found

    async def send(self, request: InferenceRequest, endpoint: str = "a") -> Decision:
        request = request.with_facts(await self.facts(request))
        return self.in_flight.begin(request, make_decision(endpoint))

    def finish(self, request: InferenceRequest, decision: Decision, **outcome: Any) -> None:
        self.in_flight.end(decision)
        self.producer.on_finished(request, decision, Outcome(outcome.pop("ending", Ending.COMPLETED), 1.0, **outcome))


def request_of(tokens: int, hits: dict[str, float] | None = None, **fields: Any) -> InferenceRequest:
    """A streamed request of so many tokens, of which endpoints have some blocks of 64 tokens cached."""
    facts = {PREFIX_HITS: hits or {}, PREFIX_SHAPE: PrefixShape(tokens // 64, 64)}
    return make_request("a word " * (tokens * 4 // 7 + 1), facts=facts, **{"streaming": True, **fields})


def sized(tokens: int, hits: dict[str, float] | None = None, **fields: Any) -> InferenceRequest:
    request = request_of(tokens, hits, **fields)
    return make_request(request.prompts[0][: 4 * tokens], facts=request.facts._values, **{"streaming": True, **fields})


@pytest.fixture
async def fleet() -> Fleet:
    one = Fleet()
    await one.producer.start()
    return one


async def test_an_idle_fleet_takes_the_time_of_the_uncached_tokens(fleet: Fleet) -> None:
    assert await fleet.expected(sized(1280, {"a": 10, "b": 20})) == pytest.approx({"a": 0.64, "b": 0.001, "c": 1.28})


async def test_facts_that_others_may_use(fleet: Fleet) -> None:
    await fleet.send(sized(640), "b")
    facts = await fleet.facts(sized(1280, {"a": 10}))
    candidates = fleet.pool.candidates(facts)
    assert candidates.fact(UNCACHED_TOKENS.of(NAME)).tolist() == pytest.approx([640, 1280, 1280])
    assert candidates.fact(TOKEN_LOAD).tolist() == pytest.approx([0, 640, 0])
    assert candidates.fact(PREFILL_RATE).tolist() == pytest.approx([RATE] * 3)


async def test_a_request_waits_for_those_sent_before_it(fleet: Fleet) -> None:
    await fleet.send(sized(1000), "a")
    await fleet.send(sized(500, {"a": 5}), "a")
    fleet.clock.advance(0.4)
    expected = await fleet.expected(sized(100))
    assert expected == pytest.approx({"a": 0.6 + 0.18 + 0.1, "b": 0.1, "c": 0.1})


async def test_a_first_token_takes_a_prompt_out_and_teaches_the_rate(fleet: Fleet) -> None:
    decision = await fleet.send(sized(1000), "a")
    fleet.clock.advance(0.5)
    fleet.in_flight.first_token(decision, exact=True)
    rate = (0.98 * 1000 + 1000) / (0.98 + 0.5)
    assert fleet.producer.inspect("a") == {
        "prefill_rate": pytest.approx(rate, abs=0.1),
        "tokens_ahead": 0.0,
        "prompts_ahead": 0,
        "penalty_seconds": 0.0,
        "last_errors_seconds": [0.5],
        "mean_error_seconds": 0.5,
    }
    assert isinstance(fleet.producer, InspectsEndpoints)


async def test_the_error_of_each_estimate_is_a_metric() -> None:
    fleet = Fleet()
    registry = CollectorRegistry()
    values = params_of(TokenLoadProducer.Params, {"prefillRate": RATE})
    fleet.producer = TokenLoadProducer(values, PluginName(NAME), fleet.in_flight, fleet.clock, registry)
    await fleet.producer.start()
    decision = await fleet.send(sized(1000), "a")
    fleet.clock.advance(3.0)
    fleet.in_flight.first_token(decision, exact=True)
    buckets = [registry.get_sample_value(f"{ERROR}_bucket", {"le": bound}) for bound in ("-3.0", "-1.0", "0.0")]
    assert buckets == [0, 1, 1]
    assert registry.get_sample_value(f"{ERROR}_count") == 1


@pytest.mark.parametrize("end", ["abort", "refused", "retried"])
async def test_a_request_without_a_first_token_leaves_nothing(fleet: Fleet, end: str) -> None:
    request = sized(1000)
    decision = await fleet.send(request, "a")
    ending = {"abort": Ending.CLIENT_LEFT, "refused": Ending.COMPLETED, "retried": Ending.UPSTREAM_FAILED}[end]
    fleet.clock.advance(0.3)
    fleet.finish(request, decision, ending=ending, status=400 if end == "refused" else None, final=end != "retried")
    assert (fleet.producer.inspect("a")["tokens_ahead"], fleet.producer._prompts) == (0, {})
    assert fleet.producer.inspect("a")["prefill_rate"] == RATE


async def test_a_response_that_is_not_streamed_teaches_no_rate(fleet: Fleet) -> None:
    request = sized(1000, streaming=False)
    decision = await fleet.send(request, "a")
    fleet.clock.advance(60.0)
    fleet.in_flight.first_token(decision, exact=True)
    fleet.finish(request, decision, status=200)
    assert fleet.producer.inspect("a")["prefill_rate"] == RATE
    assert (await fleet.expected(sized(100)))["a"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "outcome", [{"status": 500}, {"status": 503}, {"status": 429}, {"ending": Ending.UPSTREAM_FAILED}]
)
async def test_an_endpoint_that_fails_at_once_does_not_look_idle(fleet: Fleet, outcome: dict[str, Any]) -> None:
    expected = []
    for _ in range(3):
        request = sized(100)
        fleet.finish(request, await fleet.send(request, "a"), **outcome)
        expected.append((await fleet.expected(sized(100)))["a"])
    assert expected == pytest.approx([1.1, 2.1, 4.1])
    fleet.clock.advance(4.0)
    assert (await fleet.expected(sized(100)))["a"] == pytest.approx(2.1)
    request = sized(100)
    fleet.finish(request, await fleet.send(request, "a"), status=200)
    assert (await fleet.expected(sized(100)))["a"] == pytest.approx(0.1)


@pytest.mark.parametrize("status", [200, 400, 404])
async def test_a_client_s_own_mistake_sets_nobody_back(fleet: Fleet, status: int) -> None:
    request = sized(100)
    fleet.finish(request, await fleet.send(request, "a"), status=status)
    assert (await fleet.expected(sized(100)))["a"] == pytest.approx(0.1)


async def test_an_endpoint_that_never_responds_looks_worse_and_worse(fleet: Fleet) -> None:
    await fleet.send(sized(100), "a")
    waits = []
    for _ in range(4):
        fleet.clock.advance(10.0)
        waits.append((await fleet.expected(sized(100)))["a"])
    assert waits == pytest.approx([10.0, 20.0, 30.0, 40.0])


async def test_requests_of_other_routers_count_by_the_engine_s_queue(fleet: Fleet) -> None:
    for _ in range(2):
        await fleet.send(sized(400), "a")
    fleet.clock.advance(0.1)
    for status in fleet.pool.statuses():
        fleet.pool.record(status.endpoint, EndpointMetrics(waiting=5.0 if status.endpoint.name == "a" else 0.0))
    expected = await fleet.expected(sized(100))
    assert expected == pytest.approx({"a": 0.3 + 0.4 + 3 * 0.4 + 0.1, "b": 0.1, "c": 0.1})


async def test_they_can_be_left_out() -> None:
    fleet = Fleet(countOtherRequests=False)
    fleet.pool.record(fleet.pool.statuses()[0].endpoint, EndpointMetrics(waiting=5.0))
    await fleet.send(sized(400), "b")
    assert (await fleet.expected(sized(100)))["a"] == pytest.approx(0.1)


async def test_an_endpoint_without_metrics_has_as_much_from_others_as_the_rest(fleet: Fleet) -> None:
    await fleet.send(sized(400), "a")
    fleet.clock.advance(1.0)
    a, b, _ = fleet.pool.statuses()
    fleet.pool.record(a.endpoint, EndpointMetrics(waiting=5.0))
    fleet.pool.record(b.endpoint, EndpointMetrics(waiting=2.0))
    found = await fleet.facts(sized(100))
    load = fleet.pool.candidates(found).fact(TOKEN_LOAD).tolist()
    assert load == pytest.approx([4 * 400, 2 * 400, 3 * 400])


async def test_tokens_are_learnt_from_what_engines_count(fleet: Fleet) -> None:
    request = sized(1000)
    for _ in range(200):
        fleet.finish(request, await fleet.send(request, "a"), status=200, usage=Usage(prompt_tokens=2000))
    assert (await fleet.expected(request))["b"] == pytest.approx(2.0, rel=0.03)


async def test_a_prompt_longer_than_what_is_compared_teaches_no_rate(fleet: Fleet) -> None:
    facts = {PREFIX_HITS: {"a": 4.0}, PREFIX_SHAPE: PrefixShape(4, 64)}
    long = make_request("a word " * 4000, facts=facts, streaming=True)
    decision = await fleet.send(long, "a")
    fleet.clock.advance(0.01)
    fleet.in_flight.first_token(decision, exact=True)
    assert fleet.producer.inspect("a")["prefill_rate"] == RATE


async def test_the_endpoint_that_prefills_has_the_prompt_in_its_queue(fleet: Fleet) -> None:
    decision = Decision(
        "decode", {**make_decision("b", profile="prefill").results, **make_decision("a", profile="decode").results}
    )
    request = sized(640)
    fleet.in_flight.begin(request.with_facts(await fleet.facts(request)), decision)
    assert await fleet.expected(sized(100)) == pytest.approx({"a": 0.1, "b": 0.74, "c": 0.1})


async def test_an_endpoint_that_has_to_load_the_adapter_takes_longer_as_learnt(fleet: Fleet) -> None:
    for status in fleet.pool.statuses():
        adapters = frozenset(("sql",)) if status.endpoint.name == "a" else frozenset()
        fleet.pool.record(status.endpoint, EndpointMetrics(waiting=0.0, running_adapters=adapters, max_adapters=2))
    request = sized(100, model="sql")
    assert await fleet.expected(request) == pytest.approx({"a": 0.1, "b": 0.2, "c": 0.2})
    assert await fleet.expected(sized(100, model="base")) == pytest.approx({"a": 0.1, "b": 0.1, "c": 0.1})
    decision = await fleet.send(request, "b")
    fleet.clock.advance(2.1)
    fleet.in_flight.first_token(decision, exact=True)
    fleet.finish(request, decision, status=200)
    assert (await fleet.expected(request))["c"] == pytest.approx(0.1 + 0.9 * 0.1 + 0.1 * 2.0)
    assert fleet.producer.inspect("b")["prefill_rate"] == RATE


async def test_its_successor_inherits_what_was_learnt_and_counts_what_is_in_flight(fleet: Fleet) -> None:
    first = await fleet.send(sized(1000), "a")
    fleet.clock.advance(0.5)
    fleet.in_flight.first_token(first, exact=True)
    await fleet.send(sized(1000), "b")
    before, rate = fleet.producer, fleet.producer.inspect("a")["prefill_rate"]
    fleet.producer = fleet.another()
    fleet.producer.inherit_from(before)
    await fleet.producer.start()
    assert [fleet.producer.inspect(name)["prompts_ahead"] for name in "ab"] == [0, 1]
    assert fleet.producer.inspect("a")["prefill_rate"] == rate
    await fleet.producer.stop()
    await before.stop()


async def test_a_rate_that_is_assumed_is_the_new_one_after_a_reload(fleet: Fleet) -> None:
    following = fleet.another(prefillRate=4 * RATE)
    following.inherit_from(fleet.producer)
    assert following.inspect("a")["prefill_rate"] == 4 * RATE


async def test_endpoints_that_leave_are_forgotten(fleet: Fleet) -> None:
    request = sized(1000)
    decision = await fleet.send(request, "a")
    fleet.clock.advance(0.5)
    fleet.in_flight.first_token(decision, exact=True)
    fleet.finish(request, decision, status=200)
    fleet.pool.replace_all([make_endpoint("b")])
    await fleet.expected(sized(100))
    assert set(fleet.producer._queues._queues) == {"b"}
    assert fleet.producer.inspect("a")["last_errors_seconds"] == []
