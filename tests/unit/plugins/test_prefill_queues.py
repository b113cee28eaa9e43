"""Queues of prompts, with expected times worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from plugins.shared.prefill_queues import FEW, PrefillQueues
from plugins.shared.prefill_rates import PrefillRates
from plugins.shared.prompt_queue import Prompt

RATE = 1000.0
"""Tokens per second of every endpoint, so that a token is a millisecond."""


def queues(rate: float = RATE) -> PrefillQueues:
    return PrefillQueues(PrefillRates(rate))


def entered(one: PrefillQueues, tokens: float, at: float = 0.0, endpoint: str = "a", **fields: bool) -> Prompt:
    prompt = Prompt(endpoint, tokens, at, **fields)
    one.enter(prompt)
    return prompt


def test_at_rest_a_request_takes_only_its_own_tokens() -> None:
    assert queues().expected_at("a", 500, now=7.0) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (0.0, 2.0 + 0.3 + 0.5),  # the whole head, the one behind it, and its own
        (1.5, 0.5 + 0.3 + 0.5),  # three quarters of the head are done
        (2.0, 0.0 + 0.3 + 0.5),  # it is due
        (5.0, 3.0 + 0.3 + 0.5),  # overdue by three seconds: as long again
    ],
)
def test_a_request_waits_for_the_rest_of_the_head_and_for_all_behind_it(now: float, expected: float) -> None:
    one = queues()
    entered(one, 2000)
    entered(one, 300)
    assert one.expected_at("a", 500, now) == pytest.approx(expected)


def test_responses_being_generated_take_a_token_each() -> None:
    one = queues()
    for _ in range(3):
        one.first_token(entered(one, 200), now=0.2, seen=True)
    assert one.expected_at("a", 500, now=0.2) == pytest.approx(0.503)


def test_the_next_prompt_begins_with_the_first_token_of_the_one_before() -> None:
    one = queues()
    head = entered(one, 200)
    entered(one, 200)
    one.first_token(head, now=5.0, seen=True)
    assert one.expected_at("a", 100, now=5.1) == pytest.approx(0.1 + 0.001 + 0.1)


def test_a_request_that_ends_without_a_first_token_leaves_the_queue() -> None:
    one = queues()
    entered(one, 300)
    aborted = entered(one, 4000)
    one.leave(aborted, now=0.0)
    assert one.expected_at("a", 100, now=0.0) == pytest.approx(0.4)


def test_a_silent_prompt_is_processed_for_the_expected_time() -> None:
    one = queues()
    entered(one, 1000, silent=True)
    entered(one, 600)
    assert [one.expected_at("a", 100, now) for now in (0.5, 1.2)] == pytest.approx([0.5 + 0.7, 0.4 + 0.001 + 0.1])


def test_a_first_token_shows_that_the_silent_prompts_before_it_are_processed() -> None:
    one = queues()
    entered(one, 9000, silent=True)
    streamed = entered(one, 600)
    one.first_token(streamed, now=0.1, seen=True)
    assert (one.ahead("a", 0.1), one.rates.fleet) == (0.0, RATE)


def test_a_head_that_stands_in_makes_a_prompt_silent() -> None:
    one = queues()
    prompt = entered(one, 1000)
    one.first_token(prompt, now=0.01, seen=False)
    assert [one.ahead("a", now) for now in (0.25, 1.5)] == pytest.approx([750, 0])


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [(2, 0.0), (3, 1.0), (7, 5.0), (0, 0.0)],
)
def test_requests_in_the_engine_s_queue_beyond_ours_came_from_elsewhere(waiting: float, expected: float) -> None:
    one = queues()
    for at in (0.0, 1.0, 3.0):
        entered(one, 100, at)
    assert one.not_ours("a", waiting, at=2.0) == expected


def test_a_prompt_processed_since_the_scrape_was_ours_at_the_time() -> None:
    one = queues()
    one.first_token(entered(one, 100), now=2.5, seen=True)
    assert (one.not_ours("a", 1, at=2.0), one.not_ours("a", 1, at=3.0)) == (0.0, 1.0)


def test_tokens_from_elsewhere_are_waited_for() -> None:
    one = queues()
    one.set_others("a", 700)
    assert one.expected_at("a", 100, 0.0) == pytest.approx(0.8)


def test_an_endpoint_at_half_the_speed_takes_twice_as_long() -> None:
    one = queues()
    for number in range(200):
        for endpoint, seconds in (("fast", 1.0), ("slow", 2.0)):
            at = 10.0 * number
            one.first_token(entered(one, 1000, at, endpoint), at + seconds, seen=True)
    fast, slow = (one.expected_at(name, 1000, 1e6) for name in ("fast", "slow"))
    assert slow / fast == pytest.approx(2.0, rel=0.2)
    assert fast == pytest.approx(1.2, rel=0.2)


@pytest.mark.parametrize("rate", [RATE / 3, RATE * 3])
def test_a_wrong_first_guess_of_the_rate_is_forgotten(rate: float) -> None:
    one = queues(rate)
    for number in range(60):
        one.first_token(entered(one, 1000, 10.0 * number), 10.0 * number + 1.0, seen=True)
    assert one.rates.fleet == pytest.approx(RATE, rel=0.05)


def test_an_endpoint_that_is_gone_is_forgotten_once_its_requests_have_ended() -> None:
    one = queues()
    prompt = entered(one, 400)
    one.keep_only(())
    assert one.ahead("a", 0.0) == 400
    one.leave(prompt, 1.0)
    one.keep_only(())
    assert not one._queues


NAMES = tuple(f"e{number}" for number in range(FEW + 8))


class EveryHistory(RuleBasedStateMachine):
    """Whatever happens, no estimate is negative, nothing is ahead at rest, and columns agree with single values."""

    @initialize(rate=st.sampled_from([200.0, RATE, 20_000.0]))
    def begin(self, rate: float) -> None:
        self.one = queues(rate)
        self.now = 0.0
        self.open: list[Prompt] = []

    @rule(
        endpoint=st.sampled_from(NAMES[:3]), tokens=st.integers(1, 100_000), silent=st.booleans(), teaches=st.booleans()
    )
    def enter(self, endpoint: str, tokens: int, silent: bool, teaches: bool) -> None:
        self.open.append(entered(self.one, tokens, self.now, endpoint, silent=silent, teaches=teaches))

    @rule(seconds=st.floats(0.0, 100.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(data=st.data(), seen=st.booleans())
    def first_token(self, data: st.DataObject, seen: bool) -> None:
        if self.open:
            self.one.first_token(data.draw(st.sampled_from(self.open)), self.now, seen=seen)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.open:
            prompt = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
            self.one.leave(prompt, self.now)

    @rule(waiting=st.integers(0, 50), endpoint=st.sampled_from(NAMES[:3]))
    def scrape(self, waiting: int, endpoint: str) -> None:
        found = self.one.not_ours(endpoint, waiting, self.now)
        assert 0 <= found <= waiting
        self.one.set_others(endpoint, 100.0 * found)

    @invariant()
    def estimates_are_right(self) -> None:
        own = np.full(len(NAMES), 10.0)
        columns = self.one.expected(NAMES, own, self.now)
        singly = [self.one.expected_at(name, 10.0, self.now) for name in NAMES]
        assert columns.tolist() == pytest.approx(singly)
        assert columns.min() > 0
        assert min(self.one.ahead(name, self.now) for name in NAMES) >= 0
        if not self.open:
            for name in NAMES[:3]:
                assert self.one.ahead(name, self.now) == self.one.others(name)
                assert self.one._of(name).running == 0


TestEveryHistory = EveryHistory.TestCase


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.integers(1, 5000))
def test_every_token_sent_is_waited_for_at_first(sent: list[int], own: int) -> None:
    one = queues()
    for tokens in sent:
        entered(one, tokens)
    assert one.expected_at("a", own, 0.0) == pytest.approx((sum(sent) + own) / RATE)
