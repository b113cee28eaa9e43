"""The gRPC server: over real ports and sockets it serves, moves, and stops when what it serves has ended."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorStub
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from app.domain.outcome import Ending
from app.transports.ext_proc import server as module
from app.transports.ext_proc.certificates import Certificates, self_signed
from app.transports.ext_proc.health import Health
from app.transports.ext_proc.server import ExtProcServer
from app.transports.listening import Address
from tests.support.ext_proc import (
    BUFFERED,
    CHAT,
    SSE,
    answer_body,
    answer_headers,
    destination_of,
    kinds_of,
    request_body,
    request_headers,
)
from tests.support.running import until
from tests.unit.routing.given import ENDPOINTS
from tests.unit.transports.ext_proc.test_processor import ANSWERED, ASKED, Given

HOST = "127.0.0.1"
ANY = Address(HOST, 0)
GUARD = 20
FAR = 3600.0
WHERE = ",".join(endpoint.authority for endpoint in ENDPOINTS)


class Served(Given):
    """A server, and streams to it."""

    def __init__(self, address: Address, health: Address | None, **given: Any) -> None:
        super().__init__(body_bytes=10**8)
        self.ready = True
        self.server = ExtProcServer(
            listen=address,
            listen_for_health=health,
            processor=self.processor,
            health=Health(lambda: self.ready),
            admission=self.admission,
            **given,
        )

    async def ask(self, *messages: ProcessingRequest, where: str = "") -> list[Any]:
        """A stream of these messages, closed after them, and what came back. It must not end before the last one."""
        async with asyncio.timeout(GUARD), opened(where or f"{HOST}:{self.server.port}") as call:
            for message in messages:
                await call.write(message)
            await call.done_writing()
            return [answer async for answer in call]

    async def is_well(self, where: str) -> bool:
        async with grpc.aio.insecure_channel(where) as channel:
            answer = await HealthStub(channel).Check(HealthCheckRequest(), timeout=GUARD)
            return bool(answer.status == HealthCheckResponse.SERVING)

    async def move(self, port: int) -> None:
        listener = self.server.listener
        await listener.prepare(Address(HOST, port))
        await listener.commit()()


@asynccontextmanager
async def serving(address: Address = ANY, health: Address | None = None, **given: Any) -> AsyncIterator[Served]:
    served = Served(address, health, **given)
    try:
        await served.server.start()
        yield served
    finally:
        await served.server.stop(0)


@asynccontextmanager
async def opened(where: str) -> AsyncIterator[Any]:
    """A stream over a connection of its own."""
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
    async with grpc.aio.insecure_channel(where, options) as channel:
        call = ExternalProcessorStub(channel).Process()
        yield call
        call.cancel()


@asynccontextmanager
async def answering(served: Served) -> AsyncIterator[Any]:
    """A stream in the midst of its answer."""
    async with asyncio.timeout(GUARD), opened(f"{HOST}:{served.server.port}") as call:
        for message in (*ASKED, answer_headers(kind=SSE)):
            await call.write(message)
        for _ in range(3):
            await call.read()
        yield call


async def ends(call: Any) -> list[Any]:
    """Ends the answer of a stream. What came of it."""
    await call.write(answer_body(b"bye", ends=True))
    answers = []
    while (answer := await call.read()) is not grpc.aio.EOF:
        answers.append(answer)
    return answers


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def takes_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


# -- it serves


async def test_a_proxy_s_stream_is_served() -> None:
    async with serving() as served:
        answers = await served.ask(*ASKED, *ANSWERED)
        assert kinds_of(answers) == ["request_headers", "request_body", "response_headers", "response_body"]
        assert destination_of(answers[0]) == WHERE
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_proxy_that_breaks_the_protocol_gets_a_status() -> None:
    async with serving() as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(request_body(b"q"))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await until(lambda: served.is_at_rest)


async def test_a_proxy_that_leaves_leaves_nothing_in_flight() -> None:
    async with serving() as served:
        async with answering(served):
            assert served.in_flight.total == 1
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.CLIENT_LEFT, True)]


async def test_a_refusal_ends_the_stream() -> None:
    async with serving() as served:
        (answer,) = await served.ask(request_headers(), request_body(b"{", ends=True))
        assert answer.immediate_response.status.code == 400


async def test_health_is_told_on_both_ports() -> None:
    async with serving(health=ANY) as served:
        ports = {served.server.port, served.server.health_port}
        assert len(ports) == 2
        for ready in (True, False):
            served.ready = ready
            assert [await served.is_well(f"{HOST}:{port}") for port in ports] == [ready, ready]


async def test_requests_are_not_taken_on_the_port_for_health() -> None:
    async with serving(health=ANY) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(where=f"{HOST}:{served.server.health_port}")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_there_need_be_no_port_for_health() -> None:
    async with serving() as served:
        assert served.server.health_port is None


@pytest.mark.parametrize("size", [5_000_000, 70_000])
async def test_a_message_may_be_larger_than_grpc_allows_by_itself(size: int) -> None:
    body = CHAT[:-1] + b" " * size + b"}"
    async with serving() as served:
        answers = await served.ask(
            request_headers({"x-llm-d-model-name-rewrite": "x"}, mode=BUFFERED), request_body(body, ends=True)
        )
        assert len(answers[1].request_body.response.body_mutation.body) == len(body) - len("demo") + 1


async def test_a_message_that_is_too_large_is_not_taken() -> None:
    async with serving(message_bytes=1000) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(request_headers(), request_body(b"x" * 1000))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await until(lambda: served.is_at_rest)


async def test_with_a_certificate_it_speaks_tls_but_not_of_health() -> None:
    identity = self_signed(dt.datetime.now(dt.UTC))
    address = Address("localhost", 0)
    async with serving(address, address, certificates=Certificates(identity)) as served:
        credentials = grpc.ssl_channel_credentials(identity.certificate)
        async with grpc.aio.secure_channel(f"localhost:{served.server.port}", credentials) as channel:
            call = ExternalProcessorStub(channel).Process()
            for message in ASKED:
                await call.write(message)
            assert destination_of(await call.read()) == WHERE
            call.cancel()
        with pytest.raises(grpc.aio.AioRpcError):
            await served.ask(*ASKED, where=f"localhost:{served.server.port}")
        assert await served.is_well(f"localhost:{served.server.health_port}")


@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "0.0.0.0"])
async def test_it_listens_where_it_is_told(bind: str) -> None:
    async with serving(Address(bind, 0)) as served:
        assert await takes_connections(served.server.port)


async def test_it_listens_on_ipv6() -> None:
    async with serving(Address("::1", 0)) as served:
        assert kinds_of(await served.ask(*ASKED, where=f"[::1]:{served.server.port}"))[0] == "request_headers"


async def test_it_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(Address(f"unix:{path}", 0)) as served:
        assert destination_of((await served.ask(*ASKED, where=f"unix:{path}"))[0]) == WHERE
    assert not path.exists()


# -- ports that can't be had


async def test_a_port_in_use_is_an_os_error_that_names_it() -> None:
    async with serving() as served:
        address = Address(HOST, served.server.port)
        with pytest.raises(OSError, match=rf"can't listen on 127\.0\.0\.1:{address.port}"):
            await Served(address, None).server.start()


async def test_a_port_in_use_is_not_shared() -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((HOST, 0))
        holder.listen()
        with pytest.raises(OSError, match="can't listen on"):
            await Served(Address(HOST, holder.getsockname()[1]), None).server.start()


async def test_a_port_for_health_in_use_is_an_os_error_and_leaves_nothing_open() -> None:
    port = free_port()
    async with serving() as holder:
        served = Served(Address(HOST, port), Address(HOST, holder.server.port))
        with pytest.raises(OSError, match=str(holder.server.port)):
            await served.server.start()
        await served.server.stop(0)
        assert not await takes_connections(port)


async def test_a_socket_in_a_folder_that_there_is_not_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none/s"):
        await Served(Address(f"unix:{tmp_path}/none/s", 0), None).server.start()


# -- it moves


async def test_it_moves_to_another_port() -> None:
    port = free_port()
    async with serving() as served:
        before = served.server.port
        await served.move(port)
        assert served.server.port == port
        assert destination_of((await served.ask(*ASKED))[0]) == WHERE
        await until(lambda: not served.server._leaving)
        assert not await takes_connections(before)


async def test_a_stream_goes_on_while_it_moves() -> None:
    async with serving() as served:
        async with answering(served) as call:
            await served.move(free_port())
            assert kinds_of(await ends(call)) == ["response_body"]
        await until(lambda: not served.server._leaving)
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_stream_that_does_not_end_is_broken_off_after_it_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GOING_AWAY", 0.01)
    async with serving() as served, answering(served) as call:
        await served.move(free_port())
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        await until(lambda: served.is_at_rest)


async def test_it_stays_where_it_is_if_it_can_not_move() -> None:
    async with serving() as served, serving() as other:
        with pytest.raises(OSError, match="can't listen on"):
            await served.move(other.server.port)
        assert destination_of((await served.ask(*ASKED))[0]) == WHERE


async def test_a_move_may_be_abandoned() -> None:
    port = free_port()
    async with serving() as served:
        await served.server.listener.prepare(Address(HOST, port))
        assert await takes_connections(port)
        await served.server.listener.abandon()
        await until(lambda: not served.server._leaving)
        assert not await takes_connections(port)
        assert destination_of((await served.ask(*ASKED))[0]) == WHERE


# -- it stops


async def test_it_stops_when_its_streams_have_ended() -> None:
    async with serving() as served, answering(served) as call:
        stopping = asyncio.create_task(served.server.stop(FAR))
        await until(lambda: served.admission.draining)
        assert kinds_of(await ends(call)) == ["response_body"]
        await stopping
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_stream_that_does_not_end_is_broken_off() -> None:
    async with serving() as served, answering(served) as call:
        await served.server.stop(0.01)
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.CLIENT_LEFT, True)]


async def test_a_stopped_server_takes_no_connection() -> None:
    async with serving(health=ANY) as served:
        ports = [served.server.port, served.server.health_port]
        await served.server.stop(FAR)
        assert [await takes_connections(port) for port in ports if port is not None] == [False, False]


async def test_a_stream_that_comes_while_it_drains_is_refused() -> None:
    async with serving() as served:
        served.admission.draining = True
        (answer,) = await served.ask(ASKED[0])
        assert answer.immediate_response.status.code == 503


async def test_it_stops_in_time_while_it_moves() -> None:
    async with serving() as served, answering(served):
        await served.move(free_port())
        async with asyncio.timeout(GUARD):
            await served.server.stop(0.01)


async def test_who_watches_its_health_does_not_keep_it_from_stopping() -> None:
    async with serving() as served:
        async with grpc.aio.insecure_channel(f"{HOST}:{served.server.port}") as channel:
            watching = HealthStub(channel).Watch(HealthCheckRequest())
            await watching.read()
            async with asyncio.timeout(GUARD):
                await served.server.stop(FAR)
