"""`expected-ttft-scorer`: seconds as scores, and picks that spread as the estimate says."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from app.extension import EXPECTED_TTFT
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


@pytest.mark.parametrize("prompt", ["x" * 64, "One system prompt. " * 300, "A question of one's own: "])
async def test_a_burst_of_equal_requests_spreads_over_idle_endpoints(prompt: str) -> None:
    generation = Application(load(Sources(("builtin:default",))), clock=FakeClock(), random=Random(3)).generation
    pool, router = generation.pool(), generation.router()
    pool.replace_all([make_endpoint(f"e{number}", port=8000 + number) for number in range(8)])
    await generation.plugins["token-load-producer"]().start()
    picked: Counter[str] = Counter()
    for number in range(200):
        route = router.route(make_request(prompt, id=str(number), streaming=True))
        await route.__aenter__()
        picked[route.endpoint.name] += 1
    assert len(picked) == 8
    assert max(picked.values()) <= 1.3 * 200 / 8
