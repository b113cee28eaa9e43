"""Replays whose times are worked out by hand."""

from __future__ import annotations

import pytest

from app.domain.usage import Usage
from app.replay.run import replay
from tests.unit.replay.given import Scripted, fleet, request


async def test_a_lone_request_takes_its_prefill_and_its_decoding() -> None:
    chooser = Scripted([1])
    run = await replay([request(2.0, (500, 1), output=3)], fleet(), chooser)
    (served,) = run.requests
    assert (served.endpoint, served.ttft, served.end) == (1, pytest.approx(0.5), pytest.approx(2.7))
    assert chooser.usages == {0: Usage(500, 3, 0)}
    assert [what for what, _, _ in chooser.told] == ["choose", "first token", "finish"]


async def test_a_queue_is_served_in_order_and_shares_what_is_cached() -> None:
    requests = [request(0.0, (320, 1), (320, 2)), request(0.1, (320, 1), (320, 3)), request(0.1, (640, 4))]
    run = await replay(requests, fleet(), Scripted([0, 0, 1]))
    assert [one.ttft for one in run.requests] == pytest.approx([0.64, 0.64 - 0.1 + 0.32, 0.64])
    assert [one.cached_tokens for one in run.requests] == [0, 320, 0]
    assert (run.work, run.longest_queue) == ([640 + 320, 640], 1)


async def test_the_second_of_two_that_share_all_computes_its_last_block() -> None:
    requests = [request(0.0, (640, 1)), request(5.0, (640, 1))]
    run = await replay(requests, fleet(), Scripted([0, 0]))
    assert (run.requests[1].cached_tokens, run.requests[1].ttft) == (624, pytest.approx(0.016))


async def test_an_endpoint_at_half_the_speed_takes_twice_as_long() -> None:
    run = await replay([request(0.0, (500, 1), output=2)], fleet(speeds={0: 0.5}), Scripted([0]))
    assert (run.requests[0].ttft, run.requests[0].end) == (pytest.approx(1.0), pytest.approx(1.2))


async def test_a_refused_request_is_not_served() -> None:
    run = await replay([request(0.0, (500, 1)), request(0.1, (500, 2))], fleet(), Scripted([None, 1]))
    assert [one.endpoint for one in run.requests] == [None, 1]
    assert run.requests[0].ttft is None


async def test_a_request_that_fits_in_no_cache_is_refused_without_being_chosen() -> None:
    chooser = Scripted([0])
    run = await replay([request(0.0, (16_000, 1), output=1)], fleet(), chooser)
    assert (run.requests[0].endpoint, chooser.told) == (None, [])


async def test_requests_of_another_router_are_unknown_to_ours_and_take_time() -> None:
    requests = [request(0.0, (500, 1)), request(0.1, (500, 2))]
    chooser = Scripted([0, 0])
    run = await replay(requests, fleet(1), chooser, foreign=frozenset((0,)))
    assert {number for _, number, _ in chooser.told} == {1}
    assert run.requests[1].ttft == pytest.approx(0.9)


async def test_endpoints_are_scraped_in_turn_at_the_interval() -> None:
    chooser = Scripted([0], scrape_interval=1.0)
    await replay([request(0.0, (1800, 1), output=3)], fleet(), chooser)
    scrapes = [(what, endpoint, now) for what, endpoint, now in chooser.told if what.startswith("scrape")]
    assert scrapes == [
        ("scrape 0 0", 0, 0.0),
        ("scrape 0 0", 1, 0.5),
        ("scrape 1 0", 0, 1.0),
        ("scrape 0 0", 1, 1.5),
    ]
