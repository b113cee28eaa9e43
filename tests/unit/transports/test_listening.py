"""A listener that moves: the new address is open before the old one closes, and nothing changes if it can't be had."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from app.transports.listening import Listener

HOST = "127.0.0.1"


class Server:
    """A runner with a listener; `hold` is what its answers wait for."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()
        self.hold.set()
        self.listener = Listener(HOST, 0)
        app = web.Application()
        app.router.add_get("/", self._answer)
        self.runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun, ")
        await self.hold.wait()
        await response.write(b"done")
        return response


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    await server.runner.setup()
    await server.listener.start(server.runner)
    try:
        yield server
    finally:
        await server.listener.close()
        await server.runner.cleanup()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def answers(port: int) -> bool:
    """Whether a new connection is taken."""
    try:
        async with aiohttp.ClientSession() as client, client.get(f"http://{HOST}:{port}/") as answer:
            return await answer.text() == "begun, done"
    except aiohttp.ClientConnectorError:
        return False


async def test_a_listener_knows_its_port_once_started() -> None:
    async with serving() as server:
        assert server.listener.port > 0
        assert await answers(server.listener.port)


async def test_both_addresses_are_open_until_the_old_one_is_closed() -> None:
    async with serving() as server:
        old, new = server.listener.port, free_port()
        await server.listener.prepare(HOST, new)
        seen = [server.listener.port == old, await answers(old), await answers(new)]
        close = server.listener.commit()
        seen += [server.listener.port == new, await answers(old), await answers(new)]
        await close()
        assert (seen, await answers(old), await answers(new)) == ([True] * 6, False, True)


async def test_a_connection_that_is_open_stays_open_when_its_address_closes() -> None:
    async with serving() as server:
        server.hold.clear()
        url = f"http://{HOST}:{server.listener.port}/"
        async with aiohttp.ClientSession() as client, client.get(url) as answer:
            begun = await answer.content.readany()
            await server.listener.prepare(HOST, free_port())
            await server.listener.commit()()
            server.hold.set()
            assert begun + await answer.content.read() == b"begun, done"


async def test_a_port_that_is_taken_is_an_error_and_nothing_has_changed() -> None:
    async with serving() as server, serving() as other:
        old = server.listener.port
        with pytest.raises(OSError):
            await server.listener.prepare(HOST, other.listener.port)
        await server.listener.abandon()
        await server.listener.commit()()
        assert (server.listener.port, len(server.runner.sites), await answers(old)) == (old, 1, True)


async def test_what_was_prepared_closes_when_it_is_abandoned() -> None:
    async with serving() as server:
        old, new = server.listener.port, free_port()
        await server.listener.prepare(HOST, new)
        await server.listener.abandon()
        assert (await answers(old), await answers(new), server.listener.port) == (True, False, old)


async def test_the_address_in_use_is_not_opened_again() -> None:
    async with serving() as server:
        old = server.listener.port
        await server.listener.prepare(HOST, 0)
        await server.listener.commit()()
        assert (server.listener.port, len(server.runner.sites), await answers(old)) == (old, 1, True)


async def test_a_listener_may_move_again_and_back() -> None:
    async with serving() as server:
        first, second = free_port(), free_port()
        for port in (first, second, first):
            await server.listener.prepare(HOST, port)
            await server.listener.commit()()
            assert (server.listener.port, len(server.runner.sites), await answers(port)) == (port, 1, True)


async def test_abandoning_nothing_does_nothing() -> None:
    async with serving() as server:
        await server.listener.abandon()
        assert await answers(server.listener.port)


async def test_a_listener_that_was_not_started_opens_nothing() -> None:
    listener = Listener(HOST, 0)
    await listener.prepare(HOST, 1)
    await listener.commit()()
    await listener.close()
    assert listener.port == 0


async def test_a_listener_that_is_closed_takes_no_connection_and_can_be_closed_again() -> None:
    async with serving() as server:
        await server.listener.close()
        await server.listener.close()
        assert not await answers(server.listener.port)
