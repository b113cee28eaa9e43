"""Endpoints that fail, and clients that leave."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.support.engines import fake_engine, raw_engine, says
from tests.support.running import running, until


async def drop(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Closes without a word."""


async def break_off(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")


async def cut_short(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello")


async def test_an_endpoint_that_drops_the_connection_is_made_up_for_by_another() -> None:
    async with raw_engine(drop) as bad, fake_engine(says("good")) as good, running(ports=[bad, good.port]) as app:
        for _ in range(6):
            async with app.chat() as answer:
                assert await answer.text() == "good"


async def test_an_endpoint_that_went_away_is_made_up_for_by_another_and_not_picked_again() -> None:
    async with fake_engine(says("good")) as good:
        async with fake_engine(says("bad")) as bad:
            ports = [bad.port, good.port]
        async with running(ports=ports, sets=["pool.scrape.interval=10s", "pool.scrape.staleAfter=60s"]) as app:
            app.generation.pool().mark_up(app.generation.pool().get("e0"))
            for _ in range(30):  # either one is as likely, until the dead one was tried
                async with app.chat() as answer:
                    assert await answer.text() == "good"
            assert app.generation.pool().names == {"e1"}


async def test_no_more_endpoints_are_tried_than_allowed() -> None:
    asked = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)

    async with raw_engine(count) as a, raw_engine(count) as b, raw_engine(count) as c:
        async with running(ports=[a, b, c], sets=["transports.http.retries=1"]) as app, app.chat() as answer:
            assert (answer.status, answer.headers["x-llm-d-request-dropped-reason"]) == (503, "upstream-failed")
        assert len(asked) == 2


@pytest.mark.parametrize("talk", [break_off, cut_short], ids=["chunked", "with a length"])
async def test_a_stream_that_breaks_off_ends_visibly_and_is_not_tried_again(talk) -> None:  # type: ignore[no-untyped-def]
    async with raw_engine(talk) as bad, fake_engine(says("good")) as good:
        async with running(ports=[bad, good.port]) as app:
            await _only(app, "e0")
            async with app.chat() as answer:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await answer.read()
            assert not good.seen
            await until(lambda: app.process.in_flight().total == 0)


async def _only(app, name: str) -> None:  # type: ignore[no-untyped-def]
    """Makes `name` the only one that is up."""
    pool = app.generation.pool()
    await app.generation.monitor().stop()
    for status in pool.statuses():
        if status.endpoint.name != name:
            pool.mark_down(status.endpoint, "the test says so")


async def test_a_client_that_leaves_in_a_silent_prefill_ends_the_upstream_request() -> None:
    ended = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return web.Response()

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        request = asyncio.create_task(app.chat(stream=True).__aenter__())
        await until(lambda: engine.seen)
        request.cancel()
        async with asyncio.timeout(5):
            await ended.wait()
        await until(lambda: app.process.in_flight().total == 0)


async def test_a_client_that_leaves_within_the_answer_ends_the_upstream_request() -> None:
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"data: x\n\n")
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        async with app.chat(stream=True) as got:
            await got.content.readany()
        async with asyncio.timeout(5):
            await ended.wait()
        await until(lambda: app.process.in_flight().total == 0)


async def test_an_idle_connection_that_the_endpoint_closed_costs_no_request() -> None:
    """One endpoint, which closes each connection right after its answer, without saying so."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with raw_engine(once) as port, running(ports=[port]) as app:
        for _ in range(20):
            async with app.chat() as answer:
                assert answer.status == 200


async def test_an_endpoint_that_starts_later_is_picked_when_it_is_up() -> None:
    async with fake_engine(says()) as engine:
        port = engine.port
    async with running(ports=[port]) as app:
        async with app.chat() as answer:
            assert answer.status == 503
        runner = web.AppRunner(web.Application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        await until(lambda: app.generation.pool().names == {"e0"})
        await runner.cleanup()


async def test_a_hanging_metrics_page_takes_no_endpoint_out() -> None:
    async with fake_engine(says("good")) as engine:
        engine.metrics_hang = True
        async with running(ports=[engine.port], sets=["pool.scrape.timeout=10ms"]) as app, app.chat() as answer:
            assert await answer.text() == "good"
            (status,) = app.generation.pool().statuses()
            assert (status.up, status.reason) == (True, "no metrics within 0.01 s")
