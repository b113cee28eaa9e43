"""The gRPC servers of the process: the one that proxies call, and the one for health checks."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from app.transports.admission import Admission
from app.transports.ext_proc.certificates import Identity, credentials, self_signed
from app.transports.ext_proc.health import Health
from app.transports.ext_proc.port import GrpcPort, serves_health, serves_streams
from app.transports.ext_proc.processor import Context
from app.transports.listening import Address, OwnPorts, require_free

GOING_AWAY = 30.0
"""Seconds that streams have to end on a port that is closed by a reload."""


@dataclass(frozen=True, slots=True)
class ExtProcService:
    """What one configuration serves to proxies."""

    listen: Address
    health: Address | None
    """Where gRPC health is served without TLS; None for nowhere."""
    tls: bool
    identity: Identity | None
    """The configured certificate; None for the self-signed one of the process."""
    message_bytes: int
    """Largest gRPC message, and with it the largest buffered body."""
    process: Callable[[Context], Awaitable[None]]
    """Serves one stream."""


class _Key(NamedTuple):
    """What a gRPC server can't change once it listens."""

    address: Address
    health_only: bool = False
    tls: bool = False
    verifies_clients: bool = False
    message_bytes: int = 0


class ExtProcServer:
    """Serves each stream by the configuration that is current when it begins.

    A port is handed to the next configuration if all of its `_Key` is the same; else a new one is opened first.
    """

    def __init__(
        self, *, service: Callable[[], ExtProcService | None], ready: Callable[[], bool], own_ports: OwnPorts
    ) -> None:
        """`service` gives the current one; `ready` whether the process is."""
        self._service = service
        self._own_ports = own_ports
        self._health = Health(ready)
        self._ports: dict[_Key, GrpcPort] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closing_ports: set[GrpcPort] = set()
        self.admission = Admission()

    @property
    def port(self) -> int:
        """The port that proxies call; 0 for a Unix socket. Raises `LookupError` if there is none."""
        return self._port(health_only=False)

    @property
    def health_port(self) -> int:
        """The port for health checks. Raises `LookupError` if there is none."""
        return self._port(health_only=True)

    async def bind(self, service: ExtProcService | None) -> None:
        """Opens the ports that are not open yet. Raises `OSError` if one can't be opened; call `abandon` then."""
        for key in _keys(service):
            if key not in self._ports:
                await require_free(key.address, self._own_ports)
                self._ports[key] = self._open(key, service)
                self._own_ports.add(key.address.port)

    async def serve(self, service: ExtProcService | None) -> None:
        """Accepts connections on the ports of `service`, and on no others."""
        keys = set(_keys(service))
        for key in keys:
            await self._ports[key].start()
        for key in self._ports.keys() - keys:
            self._own_ports.remove(key.address.port)
            self._close_later(self._ports.pop(key))

    async def abandon(self) -> None:
        """Closes the ports that nothing serves."""
        for key, port in tuple(self._ports.items()):
            if not port.started:
                self._own_ports.remove(key.address.port)
                await self._ports.pop(key).stop(0)

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Accepts no more streams, lets those that are open finish for `timeout` seconds, then aborts them."""
        self.admission.draining = True
        self._health.shut_down()
        ports = (*self._ports.values(), *self._closing_ports)
        await asyncio.gather(*(port.stop(timeout) for port in ports), *self._closing)

    def _open(self, key: _Key, service: ExtProcService | None) -> GrpcPort:
        port = GrpcPort(key.address, key.message_bytes)
        serves_health(port.server, self._health)
        if not key.health_only:
            serves_streams(port.server, self._process)
        if key.tls:
            first = self._self_signed if service is None or service.identity is None else service.identity
            port.open(credentials(first, self._identity))
        else:
            port.open(None)
        return port

    async def _process(self, context: Context) -> None:
        service = self._service()
        if service is not None:
            await service.process(context)

    def _identity(self) -> Identity | None:
        """What proxies are shown from now on; None for no change."""
        service = self._service()
        if service is None or not service.tls:
            return None
        return service.identity or self._self_signed

    @cached_property
    def _self_signed(self) -> Identity:
        return self_signed(dt.datetime.now(dt.UTC))

    def _port(self, *, health_only: bool) -> int:
        for key, port in self._ports.items():
            if key.health_only is health_only:
                return port.number
        raise LookupError("it does not listen")

    def _close_later(self, port: GrpcPort) -> None:
        self._closing_ports.add(port)
        task = asyncio.create_task(port.stop(GOING_AWAY))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        task.add_done_callback(partial(self._closed, port))

    def _closed(self, port: GrpcPort, _: asyncio.Task[None]) -> None:
        self._closing_ports.discard(port)


class ExtProcListener:
    """Where one configuration listens for proxies."""

    def __init__(self, server: ExtProcServer, service: ExtProcService | None) -> None:
        self._server = server
        self._service = service

    async def bind(self) -> None:
        """Opens new ports. Raises `OSError`."""
        await self._server.bind(self._service)

    async def serve(self) -> None:
        """Accepts connections there, and nowhere else."""
        await self._server.serve(self._service)

    async def abandon(self) -> None:
        """Closes what `bind` opened."""
        await self._server.abandon()


def _keys(service: ExtProcService | None) -> Iterator[_Key]:
    if service is None:
        return
    identity = service.identity
    verifies = service.tls and identity is not None and identity.client_authorities is not None
    yield _Key(service.listen, tls=service.tls, verifies_clients=verifies, message_bytes=service.message_bytes)
    if service.health is not None:
        yield _Key(service.health, health_only=True, message_bytes=service.message_bytes)
