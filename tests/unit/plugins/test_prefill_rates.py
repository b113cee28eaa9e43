"""Rates of prefill, as they are learnt."""

from __future__ import annotations

import pytest

from plugins.shared.prefill_rates import STEP, PrefillRates


def taught(samples: dict[str, float], rounds: int = 300) -> PrefillRates:
    """After many prompts of 1,000 tokens; `samples` are seconds per endpoint."""
    rates = PrefillRates(8000.0)
    for _ in range(rounds):
        for name, seconds in samples.items():
            rates.learn(name, 1000, seconds)
    return rates


def test_before_anything_is_learnt_the_rate_is_the_prior() -> None:
    rates = PrefillRates(5000.0)
    assert (rates.fleet, rates.of("a"), rates.slowness("a")) == (5000.0, 5000.0, 1.0)


def test_a_first_prompt_counts_as_much_as_a_second_of_the_prior() -> None:
    rates = PrefillRates(1000.0)
    rates.learn("a", 2000, 1.0)
    assert rates.of("a") == pytest.approx((0.98 * 1000 + 2000) / (0.98 + 1.0))


@pytest.mark.parametrize("seconds", [0.05, 0.5, 5.0])
def test_the_rate_becomes_that_of_the_prompts(seconds: float) -> None:
    assert taught({"a": seconds}).of("a") == pytest.approx(1000 / seconds, rel=0.02)


def test_short_prompts_teach_nothing() -> None:
    rates = PrefillRates(8000.0)
    rates.learn("a", 255, 10.0)
    assert rates.of("a") == 8000.0


def test_one_very_slow_prompt_does_not_undo_the_rest() -> None:
    rates = taught({"a": 0.1})
    rates.learn("a", 1000, 600.0)
    assert rates.of("a") == pytest.approx(10_000, rel=0.1)


def test_a_new_endpoint_is_assumed_to_be_like_the_others() -> None:
    rates = taught({"a": 0.2, "b": 0.2})
    assert (rates.of("new"), rates.slowness("new")) == (rates.fleet, 1.0)
    assert rates.fleet == pytest.approx(5000, rel=0.02)


@pytest.mark.parametrize(("other", "steps"), [(1.1, 0), (1.25, 0), (0.85, 0), (4.0, 2)])
def test_speeds_that_differ_little_are_equal(other: float, steps: int) -> None:
    rates = taught({"a": 1.0, "b": other})
    assert rates.slowness("b") == pytest.approx(STEP**steps)


def test_an_endpoint_that_is_forgotten_no_longer_counts_for_the_fleet() -> None:
    rates = taught({"a": 1.0, "b": 0.1})
    rates.forget("b")
    assert rates.fleet == pytest.approx(1000, rel=0.02)
