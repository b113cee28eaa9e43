"""The gRPC server that proxies call, and the one that tells whether it is well."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc.aio
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import add_ExternalProcessorServicer_to_server
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from app.domain.addresses import LONGEST_SOCKET
from app.transports.admission import Admission, Limits
from app.transports.ext_proc.certificates import Certificates
from app.transports.ext_proc.health import Health
from app.transports.ext_proc.processor import Processor
from app.transports.listening import Address, Listener, Opened

GOING_AWAY = 30.0
"""Seconds that streams have to end on a port that is left for another one."""


class ExtProcServer:
    """Listens on one port for requests, and on another for questions about health."""

    def __init__(
        self,
        *,
        listen: Address,
        listen_for_health: Address | None,
        processor: Processor,
        health: Health,
        admission: Admission[Limits],
        certificates: Certificates | None = None,
        message_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """Without `certificates` it speaks plainly. `message_bytes` bounds a message, and with it a buffered body."""
        self.processor = processor
        self._health = health
        self._admission = admission
        self.certificates = certificates
        """What proxies are met with; may be renewed."""
        self._message_bytes = message_bytes
        self._leaving: set[asyncio.Task[None]] = set()
        self._servers: list[grpc.aio.Server] = []
        self._left: list[grpc.aio.Server] = []
        self.listener = Listener(listen, self._open)
        """What moves it to another address."""
        self._health_listener = (
            None if listen_for_health is None else Listener(listen_for_health, self._open_for_health)
        )

    @property
    def port(self) -> int:
        """The port in use, once started."""
        return self.listener.port

    @property
    def health_port(self) -> int | None:
        """The port for questions about health, if there is one."""
        return None if self._health_listener is None else self._health_listener.port

    async def start(self) -> None:
        """Opens the ports. Raises `OSError` if one can't be opened."""
        await self.listener.start()
        if self._health_listener is not None:
            await self._health_listener.start()

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Takes no more streams, lets those that are open end for `timeout` seconds, then breaks them off."""
        self._admission.draining = True
        self._health.stop_telling()
        await asyncio.gather(*(server.stop(timeout) for server in (*self._servers, *self._left)), *self._leaving)

    async def _open(self, address: Address) -> Opened:
        server = self._server()
        add_ExternalProcessorServicer_to_server(self.processor, server)
        credentials = None if self.certificates is None else self.certificates.credentials()
        return await self._listen(server, address, credentials)

    async def _open_for_health(self, address: Address) -> Opened:
        return await self._listen(self._server(), address, None)

    def _server(self) -> grpc.aio.Server:
        server = grpc.aio.server(options=self._options)
        add_HealthServicer_to_server(self._health, server)
        return server

    async def _listen(
        self, server: grpc.aio.Server, address: Address, credentials: grpc.ServerCredentials | None
    ) -> Opened:
        where = address.bind if address.socket is not None else _host_and_port(address)
        if address.socket is not None and len(address.socket.encode()) > LONGEST_SOCKET:
            raise OSError(f"can't listen on {where}: the path of a Unix socket has at most {LONGEST_SOCKET} bytes")
        try:
            if credentials is None:
                port = server.add_insecure_port(where)
            else:
                port = server.add_secure_port(where, credentials)
        except RuntimeError as error:  # it does not say why
            raise OSError(f"can't listen on {where}: it is in use, or not an address of this machine") from error
        await server.start()
        self._servers.append(server)

        async def close() -> None:
            self._servers.remove(server)
            self._left.append(server)
            task = asyncio.create_task(server.stop(GOING_AWAY))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
            task.add_done_callback(lambda _: self._left.remove(server))

        return Opened(port, close)

    @property
    def _options(self) -> Sequence[tuple[str, int]]:
        return (
            ("grpc.max_receive_message_length", self._message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
        )


def _host_and_port(address: Address) -> str:
    return f"[{address.bind}]:{address.port}" if ":" in address.bind else f"{address.bind}:{address.port}"
