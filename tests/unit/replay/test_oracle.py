"""The greedy oracle, by hand."""

from __future__ import annotations

from random import Random

import pytest

from app.replay.oracle import GreedyOracle, time_to_first_token
from app.replay.run import replay
from app.replay.trace import TraceRequest
from tests.unit.replay.given import fleet, request


def seconds(one: TraceRequest, *queued: TraceRequest) -> float:
    engines = fleet(1)
    for other in queued:
        engines.submit(0, other.prompt_tokens, other.chain(), other.output_tokens)
    return time_to_first_token(engines.engines[0], one.prompt_tokens, one.chain(), now=0.0)


def test_an_idle_engine_takes_the_whole_prompt() -> None:
    assert seconds(request(0, (640, 1))) == pytest.approx(0.64)


def test_prompts_ahead_count_less_what_they_share() -> None:
    ahead = (request(0, (320, 1), (320, 2)), request(0, (320, 1), (160, 3)))
    assert seconds(request(0, (320, 1), (320, 2), (100, 4)), *ahead) == pytest.approx(0.64 + 0.16 + 0.1)


def test_the_iteration_that_runs_is_waited_for() -> None:
    engines = fleet(1)
    engines.submit(0, 500, request(0, (500, 9)).chain(), 5)
    engines.run(0, 0.0, 10.0)
    one = request(0, (100, 1))
    assert time_to_first_token(engines.engines[0], 100, one.chain(), now=0.2) == pytest.approx(0.3 + 0.1)


def test_the_last_token_is_always_computed() -> None:
    assert seconds(request(0, (640, 1)), request(0, (640, 1))) == pytest.approx(0.64 + 0.016)


async def test_it_goes_where_the_prompt_is_cached_unless_the_queue_is_longer() -> None:
    trace = [
        request(0.0, (640, 1)),
        request(0.1, (640, 2)),
        request(5.0, (640, 1), (64, 3)),
        request(5.0, (640, 1), (64, 4)),
        request(5.0, (3200, 5)),
        request(5.0, (640, 1), (64, 6)),
    ]
    engines = fleet(2)
    run = await replay(trace, engines, GreedyOracle(engines, Random(1)))
    picked = [one.endpoint for one in run.requests]
    home = picked[0]
    assert home is not None
    assert picked == [home, 1 - home, home, home, 1 - home, home]
