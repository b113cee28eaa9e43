"""A listener that can move to another address while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.domain.addresses import UNIX


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    bind: str
    """An IP address or a host name, or a Unix socket as `unix:/run/pointsman.sock`."""
    port: int
    """Not used with a Unix socket."""

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket, if it is one."""
        return self.bind.removeprefix(UNIX) if self.bind.startswith(UNIX) else None


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
        self.opened: list[Opened] = []
        """What is listened on: one address, and two while it moves."""
        self.port = address.port
        """The port in use, once started."""

    async def start(self) -> None:
        """Opens the address. Raises `OSError` if it can't."""
        self._opened = await self._open_another(self._address)
        self.port = self._opened.port

    async def prepare(self, address: Address) -> None:
        """Opens another address, unless it is the one in use. Raises `OSError` if it can't; nothing has changed."""
        self._next, self._next_opened = address, self._opened
        if address != self._address and self._opened is not None:
            self._next_opened = await self._open_another(address)

    async def abandon(self) -> None:
        """Closes what was prepared."""
        if self._next_opened is not None and self._next_opened is not self._opened:
            await self._close(self._next_opened)
        self._next, self._next_opened = self._address, self._opened

    def commit(self) -> Callable[[], Awaitable[None]]:
        """Takes over what was prepared. Returns how to close what was before."""
        before = self._opened
        self._address, self._opened = self._next, self._next_opened
        if before is None or before is self._opened or self._opened is None:
            return _nothing
        self.port = self._opened.port
        return partial(self._close, before)

    async def close(self) -> None:
        """Takes no more connections."""
        if self._opened is not None:
            await self._close(self._opened)
            self._opened = None

    async def _open_another(self, address: Address) -> Opened:
        opened = await self._open(address)
        self.opened.append(opened)
        return opened

    async def _close(self, opened: Opened) -> None:
        self.opened.remove(opened)
        await opened.close()


def opened(server: asyncio.AbstractServer, address: Address) -> Opened:
    """A server of the event loop's."""
    if address.socket is not None:
        return _opened_socket(server, Path(address.socket))

    async def close() -> None:
        server.close()

    sockets = server.sockets  # type: ignore[attr-defined]  # of all loops' servers, and not of the abstract one
    return Opened(sockets[0].getsockname()[1], close)


def _opened_socket(server: asyncio.AbstractServer, path: Path) -> Opened:
    made = path.stat().st_ino

    def remove() -> None:
        with suppress(FileNotFoundError):
            if path.stat().st_ino == made:  # else somebody else listens there by now
                path.unlink()

    async def close() -> None:
        server.close()
        remove()

    return Opened(0, close)


async def _nothing() -> None:
    pass
