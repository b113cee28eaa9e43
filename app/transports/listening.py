"""A listener that can move to another address while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    bind: str
    port: int


@dataclass(frozen=True, slots=True)
class Opened:
    """An address that is listened on."""

    port: int
    close: Callable[[], Awaitable[None]]
    """Takes no more connections; those that are open stay open."""


Open = Callable[[Address], Awaitable[Opened]]
"""Listens on an address. Raises `OSError` if it can't."""


class Listener:
    """The addresses that a server listens on: one, and two while it moves.

    `prepare` opens the new one, `commit` makes it the one; connections that are open stay open.
    """

    def __init__(self, address: Address, open_: Open) -> None:
        self._address = self._next = address
        self._open = open_
        self._opened: Opened | None = None
        self._next_opened: Opened | None = None
        self.port = address.port
        """The port in use, once started."""

    async def start(self) -> None:
        """Opens the address. Raises `OSError` if it can't."""
        self._opened = await self._open(self._address)
        self.port = self._opened.port

    async def prepare(self, address: Address) -> None:
        """Opens another address, unless it is the one in use. Raises `OSError` if it can't; nothing has changed."""
        self._next, self._next_opened = address, self._opened
        if address != self._address and self._opened is not None:
            self._next_opened = await self._open(address)

    async def abandon(self) -> None:
        """Closes what was prepared."""
        if self._next_opened is not None and self._next_opened is not self._opened:
            await self._next_opened.close()
        self._next, self._next_opened = self._address, self._opened

    def commit(self) -> Callable[[], Awaitable[None]]:
        """Takes over what was prepared. Returns how to close what was before."""
        before = self._opened
        self._address, self._opened = self._next, self._next_opened
        if before is None or before is self._opened or self._opened is None:
            return _nothing
        self.port = self._opened.port
        return before.close

    async def close(self) -> None:
        """Takes no more connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None


def opened(server: asyncio.AbstractServer) -> Opened:
    """A server of the event loop's."""

    async def close() -> None:
        server.close()

    sockets = server.sockets  # type: ignore[attr-defined]  # of all loops' servers, and not of the abstract one
    return Opened(sockets[0].getsockname()[1], close)


async def _nothing() -> None:
    pass
