"""`GET /v1/models` is the union of what the endpoints list."""

from __future__ import annotations

from tests.support.engines import fake_engine, says
from tests.support.running import running


async def test_models_of_all_endpoints_are_listed_once() -> None:
    async with fake_engine(says(), "base") as a, fake_engine(says(), "base", "lora") as b:
        async with running(ports=[a.port, b.port, 1]) as app, app.client.get(f"{app.url}/v1/models") as answer:
            assert answer.status == 200
            assert [card["id"] for card in (await answer.json())["data"]] == ["base", "lora"]


async def test_no_endpoint_means_503() -> None:
    async with running() as app, app.client.get(f"{app.url}/v1/models") as answer:
        assert answer.status == 503
        assert answer.headers["x-llm-d-request-dropped-reason"] == "rejected-no-endpoints"


async def test_one_model_is_asked_for_where_it_is_listed() -> None:
    async with fake_engine(says("a"), "base") as a, fake_engine(says("b"), "base", "org/lora") as b:
        async with running(ports=[a.port, b.port]) as app:
            for _ in range(5):
                async with app.client.get(f"{app.url}/v1/models/org%2Flora") as answer:
                    assert await answer.text() == "b"
