"""A listener that can move to another address while it serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web


class Listener:
    """The addresses that a server's runner listens on: one, and two while it moves.

    `prepare` opens the new one, `commit` makes it the one; connections that are open stay open.
    """

    def __init__(self, bind: str, port: int) -> None:
        self._address = self._next = (bind, port)
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._next_site: web.TCPSite | None = None
        self.port = port
        """The port in use, once started."""

    async def start(self, runner: web.AppRunner) -> None:
        """Opens the port for a runner that is set up. Raises `OSError` if it can't."""
        self._runner = runner
        self._site = await self._open(*self._address)
        self.port = _port_of(self._site)

    async def prepare(self, bind: str, port: int) -> None:
        """Opens another address, unless it is the one in use. Raises `OSError` if it can't; nothing has changed."""
        self._next, self._next_site = (bind, port), self._site
        if self._next != self._address and self._runner is not None:
            self._next_site = await self._open(bind, port)

    async def abandon(self) -> None:
        """Closes what was prepared."""
        if self._next_site is not None and self._next_site is not self._site:
            await self._next_site.stop()
        self._next, self._next_site = self._address, self._site

    def commit(self) -> Callable[[], Awaitable[None]]:
        """Takes over what was prepared. Returns how to close what was before."""
        before = self._site
        self._address, self._site = self._next, self._next_site
        if before is None or before is self._site or self._site is None:
            return _nothing
        self.port = _port_of(self._site)
        return before.stop

    async def close(self) -> None:
        """Takes no more connections."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def _open(self, bind: str, port: int) -> web.TCPSite:
        assert self._runner is not None  # noqa: S101 - asked before
        site = web.TCPSite(self._runner, bind, port, backlog=1024)
        try:
            await site.start()
        except OSError:
            await site.stop()
            raise
        return site


def _port_of(site: web.TCPSite) -> int:
    server = site._server  # noqa: SLF001 - aiohttp tells a runner's addresses together, and not which site has which
    port: int = server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    return port


async def _nothing() -> None:
    pass
