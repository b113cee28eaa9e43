"""`expected-ttft-scorer`: seconds as scores, and picks that spread as the estimate says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from app.extension import EXPECTED_TTFT
from app.routing.router import Router
from app.settings.layers import Sources
from containers.application import Application, load
from plugins.scorers.expected_ttft import ExpectedTtftScorer
from pointsman.testing import FakeClock, make_candidates, make_endpoint, make_request
from tests.unit.plugins.given import params_of


def scores(expected: list[float]) -> list[float]:
    names = [f"e{number}" for number in range(len(expected))]
    candidates = make_candidates(*names, facts={EXPECTED_TTFT: dict(zip(names, expected, strict=True))})
    return list(ExpectedTtftScorer(params_of(ExpectedTtftScorer.Params, {})).score(make_request(), candidates))


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        ([0.5, 1.0, 2.0], [1.0, 0.5, 0.25]),
        ([3.0], [1.0]),
        ([0.0, 1.0], [1.0, 1e-6]),
        ([0.0, 0.0], [1.0, 1.0]),
    ],
)
def test_the_soonest_scores_one_and_the_others_their_share(expected: list[float], right: list[float]) -> None:
    assert scores(expected) == pytest.approx(right)


async def picks(router: Router, prompts: Iterable[str]) -> Counter[str]:
    """How often each endpoint is picked. Nothing gets a first token meanwhile."""
    picked: Counter[str] = Counter()
    for number, prompt in enumerate(prompts):
        route = router.route(make_request(prompt, id=str(number), streaming=True))
        await route.__aenter__()
        picked[route.endpoint.name] += 1
    return picked


@pytest.mark.parametrize("prompt", ["x" * 64, "One system prompt. " * 300, "A question of one's own: "])
async def test_a_burst_of_equal_requests_spreads_over_idle_endpoints(prompt: str) -> None:
    generation = Application(load(Sources(("builtin:default",))), clock=FakeClock(), random=Random(3)).generation
    pool, router = generation.pool(), generation.router()
    pool.replace_all([make_endpoint(f"e{number}", port=8000 + number) for number in range(8)])
    await generation.plugins["token-load-producer"]().start()
    picked = await picks(router, [prompt] * 200)
    assert len(picked) == 8
    assert max(picked.values()) <= 1.3 * 200 / 8


@pytest.mark.parametrize("rate", [2000.0, 32_000.0])
async def test_a_new_endpoint_gets_its_share_and_no_flood(rate: float) -> None:
    """Whether the others turned out slower or faster than assumed at first."""
    clock = FakeClock()
    generation = Application(load(Sources(("builtin:default",))), clock=clock, random=Random(3)).generation
    pool, router = generation.pool(), generation.router()
    pool.replace_all([make_endpoint(f"e{number}", port=8000 + number) for number in range(3)])
    await generation.plugins["token-load-producer"]().start()
    for number in range(60):
        async with router.route(make_request(f"{number} words " * 2000, id=str(number), streaming=True)) as route:
            clock.advance(route.request.prompt_tokens / rate)
            route.head(200)
            route.responds("text/event-stream", "")
            route.relay([b'data: {"choices": []}\n\n'])
    pool.replace_all([make_endpoint(f"e{number}", port=8000 + number) for number in range(4)])
    picked = await picks(router, [f"new {number} words " * 300 for number in range(100)])
    assert 15 <= picked["e3"] <= 35
