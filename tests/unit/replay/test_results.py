"""Summaries and comparisons worked out by hand."""

from __future__ import annotations

import pytest

from app.replay.results import Cost, compare, quantile, summarise
from app.replay.run import Run, Served


def served(ttft: float, endpoint: int = 0, *, prompt: int = 100, cached: int = 0, output: int = 11) -> Served:
    return Served(
        10.0,
        prompt,
        endpoint=endpoint,
        first_token=10.0 + ttft,
        end=10.2 + ttft,
        cached_tokens=cached,
        output_tokens=output,
    )


def test_a_summary_of_four_requests() -> None:
    foreign, refused = served(99.0), Served(10.0, 100)
    foreign.foreign = True
    run = Run(
        [served(1.0), served(2.0, cached=50), served(3.0), served(10.0, prompt=200), foreign, refused], [300, 150]
    )
    found = summarise(run)
    assert (found.requests, found.refused) == (4, 1)
    assert (found.mean, found.p50, found.p90, found.p99) == pytest.approx((4.0, 2.0, 10.0, 10.0))
    assert found.time_per_output_token == pytest.approx(0.02)
    assert found.hit_share == pytest.approx(50 / 500)
    assert found.busiest == pytest.approx(300 / 225)


def test_without_a_served_request_there_is_no_summary() -> None:
    with pytest.raises(ValueError, match="no request was served"):
        summarise(Run([Served(1.0, 10)], [0]))


@pytest.mark.parametrize(
    ("share", "value"), [(0.01, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (0.99, 4), (1.0, 4)]
)
def test_a_quantile_is_the_least_value_that_enough_do_not_exceed(share: float, value: float) -> None:
    assert quantile([1, 2, 3, 4], share) == value


def test_a_comparison_shows_the_picks_that_differ_and_what_they_cost() -> None:
    first = Run([served(1.0, 0), served(2.0, 1), served(3.0, 0), Served(1.0, 5)], [1, 1])
    second = Run([served(1.0, 0), served(7.0, 0), served(2.0, 1), served(1.0, 1)], [1, 1])
    found = compare(first, second)
    assert (found.differing, found.compared, found.ttfts) == (2, 3, (2.5, 4.5))
    assert found.costliest == [Cost(1, (1, 0), (2.0, 7.0)), Cost(2, (0, 1), (3.0, 2.0))]
