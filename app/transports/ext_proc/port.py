"""One gRPC server on one address."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc.aio
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import (
    ExternalProcessorServicer,
    add_ExternalProcessorServicer_to_server,
)
from grpc_health.v1.health_pb2_grpc import HealthServicer, add_HealthServicer_to_server

from app.domain.addresses import LONGEST_SOCKET, UNIX
from app.transports.ext_proc.processor import Context
from app.transports.listening import Address, remove_socket

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # we fork only to start other programs, and gRPC would warn


class _Servicer(ExternalProcessorServicer):
    def __init__(self, process: Callable[[Context], Awaitable[None]]) -> None:
        self._process = process

    async def Process(self, request_iterator: object, context: Context) -> None:  # noqa: N802 - gRPC's names
        await self._process(context)


def serves_streams(server: grpc.aio.Server, process: Callable[[Context], Awaitable[None]]) -> None:
    """Has `process` serve each stream of a proxy."""
    add_ExternalProcessorServicer_to_server(_Servicer(process), server)


def serves_health(server: grpc.aio.Server, health: HealthServicer) -> None:
    """Has `health` serve health checks."""
    add_HealthServicer_to_server(health, server)


class GrpcPort:
    """Bound by `open`, accepting from `start` on.

    gRPC removes the path of a Unix socket when it closes it. So the socket is bound under a name of its own and then
    renamed to the path: the next server can take the path over before this one is closed.
    """

    def __init__(self, address: Address, message_bytes: int) -> None:
        self._address = address
        self._hidden: Path | None = None
        self._inode = 0
        self.server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 1),  # see `require_free`
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5000),
            )
        )
        self.number = address.port
        """The port; 0 for a Unix socket."""
        self.started = False

    def open(self, credentials: grpc.ServerCredentials | None) -> None:
        """Binds the address. Raises `OSError` if it can't."""
        where = self._where()
        try:
            if credentials is None:
                self.number = self.server.add_insecure_port(where)
            else:
                self.number = self.server.add_secure_port(where, credentials)
        except RuntimeError as error:  # it does not say why
            message = f"can't listen on {self._address}: it is in use, or not an address of this machine"
            raise OSError(message) from error
        if self._address.socket is not None:
            self.number = 0

    async def start(self) -> None:
        """Accepts connections, if it does not yet."""
        if self.started:
            return
        self.started = True
        await self.server.start()
        if self._hidden is not None and self._address.socket is not None:
            self._inode = self._hidden.stat().st_ino
            self._hidden.rename(self._address.socket)

    async def stop(self, grace: float) -> None:
        """Accepts no more streams, and aborts those that are open after `grace` seconds."""
        if self._address.socket is not None and self._inode:
            remove_socket(Path(self._address.socket), self._inode)
        if not self.started:
            await self.server.start()  # gRPC does not close the sockets of a server that was never started
        await self.server.stop(grace)

    def _where(self) -> str:
        path = self._address.socket
        if path is None:
            return str(self._address)
        if len(path.encode()) > LONGEST_SOCKET:
            message = f"can't listen on {self._address}: the path of a Unix socket has at most {LONGEST_SOCKET} bytes"
            raise OSError(message)
        if Path(path).exists() and not Path(path).is_socket():
            raise OSError(f"can't listen on {self._address}: there is a file that is not a socket")
        hidden = Path(path).with_name(f".{secrets.token_hex(3)}")
        if len(str(hidden).encode()) > LONGEST_SOCKET:
            return self._address.bind
        self._hidden = hidden
        return f"{UNIX}{hidden}"
