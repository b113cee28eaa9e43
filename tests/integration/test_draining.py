"""What happens to requests when the router stops."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from tests.support.engines import fake_engine, says
from tests.support.running import running, until


async def test_a_request_in_flight_is_finished_before_the_server_stops() -> None:
    hold = asyncio.Event()

    async def answer(_: web.Request) -> web.StreamResponse:
        await hold.wait()
        return web.Response(text="done")

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        request = asyncio.create_task(_text(app.chat()))
        await until(lambda: engine.seen)
        stopping = asyncio.create_task(app.drain(10.0))
        await asyncio.sleep(0)
        hold.set()
        assert await request == "done"
        await stopping


async def test_a_server_that_stops_takes_no_new_connection() -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        url = f"{app.url}/v1/chat/completions"
        await app.drain(1.0)
        with pytest.raises(aiohttp.ClientConnectorError):
            await _text(app.client.post(url, json={}))


async def test_a_request_that_does_not_end_in_time_is_broken_off() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        request = asyncio.create_task(_text(app.chat()))
        await until(lambda: engine.seen)
        await app.drain(0.01)
        with pytest.raises(aiohttp.ClientError):
            await request
        await until(lambda: app.process.in_flight().total == 0)


async def _text(request) -> str:  # type: ignore[no-untyped-def]
    async with request as answer:
        return await answer.text()
