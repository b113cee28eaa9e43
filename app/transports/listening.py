"""The listening sockets of the process, by address. They are handed from one configuration to the next."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.domain.addresses import UNIX

HTTP, ADMIN = "http", "admin"
"""The servers that listen on sockets of the process."""

BACKLOG = 1024
"""Connections that may wait to be accepted."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    bind: str
    """An IP address or a host name, or a Unix socket as `unix:/run/pointsman.sock`."""
    port: int
    """0 takes a free port. Always 0 for a Unix socket."""

    def __post_init__(self) -> None:
        if self.socket is not None:
            object.__setattr__(self, "port", 0)

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket, if it is one."""
        return self.bind.removeprefix(UNIX) if self.bind.startswith(UNIX) else None

    def __str__(self) -> str:
        if self.socket is not None:
            return self.bind
        return f"[{self.bind}]:{self.port}" if ":" in self.bind else f"{self.bind}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listening:
    """A server's wish to listen."""

    server: str
    """The server's name; each listens at one address."""
    address: Address
    protocol: Callable[[], asyncio.Protocol]
    """Makes the protocol of each connection."""
    tls: ssl.SSLContext | None = None

    @property
    def key(self) -> tuple[str, Address]:
        """Sockets are shared by equal keys: by address, except that every server has a free port of its own."""
        is_free = not self.address.port and self.address.socket is None
        return (self.server if is_free else "", self.address)


@dataclass(slots=True, eq=False)
class _Bound:
    """The sockets of one address, and what accepts their connections."""

    sockets: list[socket.socket]
    serves: Listening | None = None
    servers: list[asyncio.Server] = field(default_factory=list)
    inode: int = 0
    """Of a Unix socket, once it is bound."""


class OwnPorts:
    """The ports that this process has bound. Ports of different servers may be the same for a moment, in a reload."""

    def __init__(self) -> None:
        self._ports: list[int] = []

    def __contains__(self, port: object) -> bool:
        return port in self._ports

    def add(self, port: int) -> None:
        """One more socket has the port."""
        self._ports.append(port)

    def remove(self, port: int) -> None:
        """One less."""
        self._ports.remove(port)


class Sockets:
    """Binds addresses and accepts connections there.

    `bind` does all that can fail and changes nothing that clients see; `serve` moves to exactly the addresses given.
    Connections that are open stay open.
    """

    def __init__(self, own_ports: OwnPorts) -> None:
        self._own_ports = own_ports
        self._bound: dict[tuple[str, Address], _Bound] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses that are bound."""
        return tuple(address for _, address in self._bound)

    def port(self, server: str) -> int:
        """The port that a server listens on; 0 for a Unix socket. Raises `LookupError` if it does not listen."""
        for bound in self._bound.values():
            if bound.serves is not None and bound.serves.server == server:
                return port_of(bound.sockets[0])
        raise LookupError(f"{server} does not listen")

    async def bind(self, wanted: Iterable[Listening]) -> None:
        """Binds the addresses that are not bound yet. Raises `OSError` if one can't be; call `abandon` then."""
        for listening in wanted:
            if listening.key not in self._bound:
                self._bound[listening.key] = await self._bind(listening.address)

    async def serve(self, wanted: Iterable[Listening], *, only: bool = True) -> None:
        """Accepts connections at the addresses bound for `wanted`; with `only`, nowhere else."""
        listenings = {listening.key: listening for listening in wanted}
        for key, listening in listenings.items():
            await _accept(self._bound[key], listening)
        if only:
            for key in self._bound.keys() - listenings.keys():
                self._close(key)

    def abandon(self) -> None:
        """Releases the addresses that nothing serves."""
        for key, bound in tuple(self._bound.items()):
            if bound.serves is None:
                self._close(key)

    def close(self, server: str) -> None:
        """Stops listening for one server."""
        for key, bound in tuple(self._bound.items()):
            if bound.serves is not None and bound.serves.server == server:
                self._close(key)

    async def _bind(self, address: Address) -> _Bound:
        if address.socket is not None:
            one = _unix_socket(address.socket)
            return _Bound([one], inode=_inode(address.socket))
        await require_free(address, self._own_ports)
        bound = _Bound(await _bind_all(address, reuse_port=True))
        self._own_ports.add(address.port)
        return bound

    def _close(self, key: tuple[str, Address]) -> None:
        bound, address = self._bound.pop(key), key[1]
        for server in bound.servers:
            server.close()
        for one in bound.sockets:
            one.close()
        if address.socket is not None:
            remove_socket(Path(address.socket), bound.inode)
        else:
            self._own_ports.remove(address.port)


class SocketsListener:
    """Where one configuration listens by the sockets of the process."""

    def __init__(self, sockets: Sockets, listenings: Sequence[Listening], *, only: bool = True) -> None:
        """With `only`, nothing else of the process listens from `serve` on."""
        self._sockets = sockets
        self._listenings = tuple(listenings)
        self._only = only

    async def bind(self) -> None:
        """Binds new addresses. Raises `OSError`."""
        await self._sockets.bind(self._listenings)

    async def serve(self) -> None:
        """Accepts connections there, and nowhere else."""
        await self._sockets.serve(self._listenings, only=self._only)

    async def abandon(self) -> None:
        """Releases what `bind` bound."""
        self._sockets.abandon()


async def _accept(bound: _Bound, listening: Listening) -> None:
    before = bound.serves
    bound.serves = listening
    if before is not None and (before.protocol, before.tls) == (listening.protocol, listening.tls):
        return
    servers, bound.servers = bound.servers, [await _server(one, listening) for one in bound.sockets]
    for server in servers:
        server.close()


async def _server(bound: socket.socket, listening: Listening) -> asyncio.Server:
    """A server of the event loop on a duplicate of the socket, so that closing it does not close the socket."""
    loop = asyncio.get_running_loop()
    one = bound.dup()
    if listening.address.socket is None:
        return await loop.create_server(listening.protocol, sock=one, ssl=listening.tls, backlog=BACKLOG)
    return await loop.create_unix_server(
        listening.protocol, sock=one, ssl=listening.tls, backlog=BACKLOG, **_keeping_the_path(loop)
    )


def _keeping_the_path(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """From Python 3.13 on asyncio removes the path of a Unix socket with its server, unless asked not to."""
    with suppress(ValueError, TypeError):
        if "cleanup_socket" in inspect.signature(loop.create_unix_server).parameters:
            return {"cleanup_socket": False}
    return {}


# -- binding, shared with servers that bind by themselves


def port_of(bound: socket.socket) -> int:
    """The port of a socket; 0 for a Unix socket."""
    name = bound.getsockname()
    return name[1] if isinstance(name, tuple) else 0


def remove_socket(path: Path, inode: int) -> None:
    """Removes the path of a Unix socket, unless another process listens there by now."""
    with suppress(FileNotFoundError):
        if path.stat().st_ino == inode:
            path.unlink()


async def require_free(address: Address, ours: Container[object]) -> None:
    """Raises `OSError` if something listens at `address` that this process does not know of.

    Sockets are bound with SO_REUSEPORT, so that a new address may overlap one that is in use here, as 127.0.0.1 does
    with 0.0.0.0 on one port. That alone would also let two processes share a port unnoticed. `ours` are the ports that
    this process has bound.
    """
    if address.socket is None and address.port and address.port not in ours:
        for one in await _bind_all(address, reuse_port=False):
            one.close()


def _inode(path: str) -> int:
    return Path(path).stat().st_ino


def _unix_socket(path: str) -> socket.socket:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            if Path(path).is_socket():  # left by a process that is gone
                Path(path).unlink()
        one.bind(path)
    except OSError as error:
        one.close()
        raise OSError(error.errno, f"can't listen on {UNIX}{path}: {error.strerror or error}") from error
    one.setblocking(False)  # noqa: FBT003 - the name says it
    return one


async def _bind_all(address: Address, *, reuse_port: bool) -> list[socket.socket]:
    """A socket for each IP address that the name stands for."""
    loop = asyncio.get_running_loop()
    host = address.bind or None
    sockets: list[socket.socket] = []
    try:
        found = await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(where)
            one.setblocking(False)  # noqa: FBT003 - the name says it
    except OSError as error:
        for one in sockets:
            one.close()
        raise OSError(error.errno, f"can't listen on {address}: {(error.strerror or str(error)).lower()}") from error
    return sockets
