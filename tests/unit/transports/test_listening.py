"""A listener that moves: the new address is open before the old one closes, and nothing changes if it can't be had."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.transports.listening import Address, Listener, Opened

HOST = "127.0.0.1"


class Server:
    """A server with a listener; `hold` is what its answers wait for."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()
        self.hold.set()
        self.opened: list[int] = []
        self.open: set[int] = set()
        self.listener = Listener(Address(HOST, 0), self._open)

    async def _open(self, address: Address) -> Opened:
        server = await asyncio.start_server(self._answer, address.bind, address.port)
        port: int = server.sockets[0].getsockname()[1]

        async def close() -> None:
            server.close()
            self.open.discard(port)

        self.opened.append(port)
        self.open.add(port)
        return Opened(port, close)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"begun, ")
        await self.hold.wait()
        writer.write(b"done")
        writer.close()

    async def move(self, port: int) -> None:
        await self.listener.prepare(Address(HOST, port))
        await self.listener.commit()()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    await server.listener.start()
    try:
        async with asyncio.timeout(20):
            yield server
    finally:
        await server.listener.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def answers(port: int) -> bool:
    """Whether a new connection is taken."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
    except ConnectionRefusedError:
        return False
    got = await reader.read()
    writer.close()
    return got == b"begun, done"


async def test_a_listener_knows_its_port_once_started() -> None:
    async with serving() as server:
        assert server.listener.port > 0
        assert await answers(server.listener.port)


async def test_both_addresses_are_open_until_the_old_one_is_closed() -> None:
    async with serving() as server:
        old, new = server.listener.port, free_port()
        await server.listener.prepare(Address(HOST, new))
        seen = [server.listener.port == old, await answers(old), await answers(new)]
        close = server.listener.commit()
        seen += [server.listener.port == new, await answers(old), await answers(new)]
        await close()
        assert (seen, await answers(old), await answers(new)) == ([True] * 6, False, True)


async def test_a_connection_that_is_open_stays_open_when_its_address_closes() -> None:
    async with serving() as server:
        server.hold.clear()
        reader, writer = await asyncio.open_connection(HOST, server.listener.port)
        begun = await reader.readexactly(7)
        await server.move(free_port())
        server.hold.set()
        assert begun + await reader.read() == b"begun, done"
        writer.close()


async def test_a_port_that_is_taken_is_an_error_and_nothing_has_changed() -> None:
    async with serving() as server, serving() as other:
        old = server.listener.port
        with pytest.raises(OSError):
            await server.listener.prepare(Address(HOST, other.listener.port))
        await server.listener.abandon()
        await server.listener.commit()()
        assert (server.listener.port, server.open, await answers(old)) == (old, {old}, True)


async def test_an_address_that_can_not_be_had_at_the_start_is_an_error() -> None:
    async with serving() as server:
        other = Server()
        other.listener = Listener(Address(HOST, server.listener.port), other._open)
        with pytest.raises(OSError):
            await other.listener.start()
        await other.listener.close()
        assert other.open == set()


async def test_what_was_prepared_closes_when_it_is_abandoned() -> None:
    async with serving() as server:
        old, new = server.listener.port, free_port()
        await server.listener.prepare(Address(HOST, new))
        await server.listener.abandon()
        assert (await answers(old), await answers(new), server.listener.port) == (True, False, old)
        assert server.open == {old}


async def test_the_address_in_use_is_not_opened_again() -> None:
    async with serving() as server:
        old = server.listener.port
        await server.move(0)
        assert (server.listener.port, server.opened, await answers(old)) == (old, [old], True)


async def test_a_listener_may_move_again_and_back() -> None:
    async with serving() as server:
        first, second = free_port(), free_port()
        for port in (first, second, first):
            await server.move(port)
            assert (server.listener.port, server.open, await answers(port)) == (port, {port}, True)


async def test_abandoning_nothing_does_nothing() -> None:
    async with serving() as server:
        await server.listener.abandon()
        assert await answers(server.listener.port)


async def test_a_listener_that_was_not_started_opens_nothing() -> None:
    server = Server()
    await server.listener.prepare(Address(HOST, 1))
    await server.listener.commit()()
    await server.listener.close()
    assert (server.listener.port, server.opened) == (0, [])


async def test_a_listener_that_is_closed_takes_no_connection_and_can_be_closed_again() -> None:
    async with serving() as server:
        await server.listener.close()
        await server.listener.close()
        assert not await answers(server.listener.port)
