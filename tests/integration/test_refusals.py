"""What the router answers itself: OpenAI's error shape, the right status, the reason, and where it came from."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.engines import fake_engine, says
from tests.support.running import Running, running, until

REASON = "x-llm-d-request-dropped-reason"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"messages": []}', id="no model"),
        pytest.param(b'{"model": 7, "messages": [{}]}', id="a number for a model"),
        pytest.param(b'{"model": "demo", "messages": []}', id="no message"),
        pytest.param(b'{"model": "demo", "model": "x", "messages": [{}]}', id="two models"),
        pytest.param(b'{"model": "demo", "messages": [{"content": NaN}]}', id="NaN"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
async def test_a_body_that_can_not_be_read_is_400(body: bytes) -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        async with app.client.post(f"{app.url}/v1/chat/completions", data=body) as answer:
            assert (answer.status, answer.headers[REASON]) == (400, "rejected-bad-request")
            assert (await answer.json())["error"]["type"] == "invalid_request_error"
        assert not engine.seen


async def test_a_model_that_no_endpoint_lists_is_404_and_named() -> None:
    async with fake_engine(says(), "demo") as engine, running(ports=[engine.port]) as app:
        async with app.chat(model="nope") as answer:
            assert (answer.status, answer.headers[REASON]) == (404, "rejected-unknown-model")
            error = (await answer.json())["error"]
            assert error["code"] == "model_not_found"
            assert "'nope'" in error["message"]


async def test_a_model_loaded_a_moment_ago_is_found() -> None:
    async with fake_engine(says(), "demo") as engine, running(ports=[engine.port]) as app:
        engine.models = ("demo", "fresh")
        await asyncio.sleep(1.01)  # lists are asked for again once a second at most
        async with app.chat(model="fresh") as answer:
            assert answer.status == 200


async def test_a_request_goes_only_where_its_model_is() -> None:
    async with fake_engine(says("a"), "demo") as a, fake_engine(says("b"), "demo", "lora") as b:
        async with running(ports=[a.port, b.port]) as app:
            for _ in range(8):
                async with app.chat(model="lora") as answer:
                    assert await answer.text() == "b"


async def test_a_body_over_the_limit_is_413() -> None:
    async with (
        fake_engine(says()) as engine,
        running(ports=[engine.port], sets=["transports.http.limits.bodyBytes=2048"]) as app,
    ):
        async with app.chat("x" * 4000) as answer:
            assert (answer.status, answer.headers[REASON]) == (413, "rejected-too-large")


async def test_a_small_body_that_inflates_over_the_limit_is_413() -> None:
    bomb = gzip.compress(b"x" * 100_000_000)
    async with (
        fake_engine(says()) as engine,
        running(ports=[engine.port], sets=["transports.http.limits.bodyBytes=1Mi"]) as app,
    ):
        headers = {"content-encoding": "gzip"}
        async with app.client.post(f"{app.url}/v1/chat/completions", data=bomb, headers=headers) as answer:
            assert answer.status == 413


async def test_a_corrupt_compressed_body_is_400_and_names_the_encoding() -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        headers = {"content-encoding": "gzip"}
        async with app.client.post(f"{app.url}/v1/chat/completions", data=b"no gzip", headers=headers) as answer:
            assert (answer.status, "gzip" in (await answer.json())["error"]["message"]) == (400, True)


async def test_filters_that_leave_nobody_give_429() -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port], sets=[
        "plugins[nobody].type=label-selector-filter",
        "plugins[nobody].parameters.matchLabels.zone=moon",
        "schedulingProfiles[default].plugins[nobody].weight=null",
    ]) as app:  # fmt: skip
        async with app.chat() as answer:
            assert (answer.status, answer.headers[REASON]) == (429, "rejected-saturated")
            assert (await answer.json())["error"]["code"] == "rate_limit_exceeded"


async def test_more_requests_at_once_than_allowed_give_429() -> None:
    hold = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        await hold.wait()
        return web.Response()

    async with (
        fake_engine(answer) as engine,
        running(ports=[engine.port], sets=["transports.http.limits.inFlight=1"]) as app,
    ):
        first = asyncio.create_task(_status(app))
        await until(lambda: engine.seen)
        assert await _status(app) == 429
        hold.set()
        assert await first == 200


async def test_no_more_requests_than_allowed_are_let_in_at_once() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    sets = ["transports.http.limits.inFlight=2", "transports.http.timeouts.response=100ms"]
    async with fake_engine(answer) as engine, running(ports=[engine.port], sets=sets) as app:
        assert sorted(await asyncio.gather(*(_status(app) for _ in range(10)))) == [429] * 8 + [504] * 2


@pytest.mark.parametrize(("body", "kind"), [(b"{", "BadRequest"), (b"x" * 3000, "BodyTooLarge")])
async def test_what_is_refused_before_it_is_routed_is_counted(body: bytes, kind: str) -> None:
    async with (
        fake_engine(says()) as engine,
        running(ports=[engine.port], sets=["transports.http.limits.bodyBytes=2048"]) as app,
    ):
        async with app.client.post(f"{app.url}/v1/chat/completions", data=body):
            pass
        async with app.client.get(f"{app.admin_url}/metrics") as page:
            assert f'llm_d_epp_request_error_total{{error_code="{kind}",model_name=""}} 1.0' in await page.text()


async def test_an_empty_pool_gives_503() -> None:
    async with running() as app, app.chat() as answer:
        assert (answer.status, answer.headers[REASON]) == (503, "rejected-no-endpoints")
        assert "x-gateway-destination-endpoint-served" not in answer.headers


async def test_an_endpoint_that_is_down_gives_503() -> None:
    async with running(ports=[1]) as app, app.chat() as answer:
        assert answer.status == 503


async def test_an_endpoint_that_does_not_answer_in_time_gives_504() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    sets = ["transports.http.timeouts.response=50ms", "transports.http.retries=0"]
    async with fake_engine(answer) as engine, running(ports=[engine.port], sets=sets) as app, app.chat() as got:
        assert (got.status, got.headers[REASON]) == (504, "upstream-timeout")


async def test_a_plugin_that_fails_is_500_and_not_named_to_the_client(tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text("class Broken:\n    def filter(self, request, candidates):\n        raise ValueError('secret')\n")
    sets = [f"plugins[broken].type={plugin}:Broken", "schedulingProfiles[default].plugins[broken].enabled=true"]
    async with fake_engine(says()) as engine, running(ports=[engine.port], sets=sets) as app, app.chat() as answer:
        assert answer.status == 500
        assert "secret" not in await answer.text()
        assert app.process.in_flight().total == 0


async def test_a_fault_of_the_router_itself_is_500_in_the_same_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        monkeypatch.setattr("app.transports.http.handler.lower_case", lambda _: 1 / 0)
        async with app.chat() as answer:
            assert (answer.status, answer.headers[REASON]) == (500, "internal-error")
            assert (await answer.json())["error"]["message"] == "internal error"


async def _status(app: Running) -> int:
    async with app.chat() as answer:
        return answer.status
