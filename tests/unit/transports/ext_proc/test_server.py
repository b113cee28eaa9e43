"""The gRPC server: over real ports and sockets it serves, is handed to the next configuration, and stops."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorStub
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from app.domain.addresses import LONGEST_SOCKET
from app.domain.outcome import Ending
from app.transports.ext_proc import server as module
from app.transports.ext_proc.certificates import self_signed
from app.transports.ext_proc.lazy import ExtProc
from app.transports.ext_proc.server import ExtProcListener, ExtProcServer, ExtProcService
from app.transports.listening import Address, OwnPorts
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
from tests.unit.transports.ext_proc.test_processor import ANSWERED, ASKED, Given, Limits

HOST = "127.0.0.1"
ALL = "0.0.0.0"
ANY = Address(HOST, 0)
GUARD = 20
FAR = 3600.0
WHERE = ",".join(endpoint.authority for endpoint in ENDPOINTS)
IDENTITIES = [self_signed(dt.datetime.now(dt.UTC)) for _ in range(2)]


class Served(Given):
    """A server, and streams to it."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = True
        self.own_ports = OwnPorts()
        self.service: ExtProcService | None = None
        self.server = ExtProcServer(service=lambda: self.service, ready=lambda: self.ready, own_ports=self.own_ports)
        self.admission = self.server.admission
        self.processor = self.processor_with(Limits(body_bytes=10**8))

    def configured(self, listen: Address = ANY, health: Address | None = None, **fields: Any) -> ExtProcService:
        """A configuration; without TLS unless `fields` say so."""
        usual = {"tls": False, "identity": None, "message_bytes": 10**8, "process": self.processor.process}
        return ExtProcService(listen, health, **{**usual, **fields})

    async def apply(self, service: ExtProcService | None) -> None:
        """What a configuration does when it takes the place of another one."""
        listener = ExtProcListener(self.server, service)
        try:
            await listener.bind()
        except OSError:
            await listener.abandon()
            raise
        self.service = service
        await listener.serve()

    @property
    def where(self) -> str:
        """Where proxies call."""
        assert self.service is not None
        path = self.service.listen.socket
        return f"unix:{path}" if path else f"{HOST}:{self.server.port}"

    async def ask(self, *messages: ProcessingRequest, where: str = "") -> list[Any]:
        """A stream of these messages, closed after them, and its replies. It must not end before the last message."""
        async with asyncio.timeout(GUARD), opened(where or self.where) as call:
            for message in messages:
                await call.write(message)
            await call.done_writing()
            return [reply async for reply in call]

    async def destination(self) -> str:
        """The destination of a request over a new connection."""
        return destination_of((await self.ask(*ASKED))[0])


@asynccontextmanager
async def serving(listen: Address = ANY, health: Address | None = None, **fields: Any) -> AsyncIterator[Served]:
    served = Served()
    try:
        await served.apply(served.configured(listen, health, **fields))
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
async def responding(served: Served) -> AsyncIterator[Any]:
    """A stream during its response."""
    async with asyncio.timeout(GUARD), opened(served.where) as call:
        for message in (*ASKED, answer_headers(kind=SSE)):
            await call.write(message)
        for _ in range(3):
            await call.read()
        yield call


async def end(call: Any) -> list[str]:
    """Ends the response of a stream. The kinds of the replies from then on."""
    await call.write(answer_body(b"bye", ends=True))
    replies = []
    while (reply := await call.read()) is not grpc.aio.EOF:
        replies.append(reply)
    return kinds_of(replies)


def secure(where: str, certificate: bytes) -> grpc.aio.Channel:
    """A connection that trusts this self-signed certificate."""
    options = (("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    return grpc.aio.secure_channel(where, grpc.ssl_channel_credentials(certificate), options)


async def is_healthy(channel: grpc.aio.Channel) -> bool:
    """Whether the service at the other end says that it is ready. False as well if it can't be asked."""
    async with channel:
        try:
            response = await HealthStub(channel).Check(HealthCheckRequest(), timeout=GUARD)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return False
            raise
    return bool(response.status == HealthCheckResponse.SERVING)


def plain(where: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(where, (("grpc.use_local_subchannel_pool", 1),))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ALL, 0))
        port: int = probe.getsockname()[1]
        return port


def listening_at(port: int) -> int:
    """How many sockets listen at the port, at whichever address."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


async def accepts_connections(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


# -- it serves


async def test_a_proxy_s_stream_is_served() -> None:
    async with serving() as served:
        replies = await served.ask(*ASKED, *ANSWERED)
        assert kinds_of(replies) == ["request_headers", "request_body", "response_headers", "response_body"]
        assert destination_of(replies[0]) == WHERE
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_proxy_that_violates_the_protocol_gets_a_status() -> None:
    async with serving() as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(request_body(b"q"))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        await until(lambda: served.is_at_rest)


async def test_a_proxy_that_leaves_leaves_nothing_in_flight() -> None:
    async with serving() as served:
        async with responding(served):
            assert served.in_flight.total == 1
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.CLIENT_LEFT, True)]


async def test_a_rejection_ends_the_stream() -> None:
    async with serving() as served:
        (reply,) = await served.ask(request_headers(), request_body(b"{", ends=True))
        assert reply.immediate_response.status.code == 400


async def test_health_is_reported_on_both_ports() -> None:
    async with serving(health=ANY) as served:
        ports = {served.server.port, served.server.health_port}
        assert len(ports) == 2
        for ready in (True, False):
            served.ready = ready
            assert [await is_healthy(plain(f"{HOST}:{port}")) for port in ports] == [ready, ready]


async def test_requests_are_not_accepted_on_the_port_for_health() -> None:
    async with serving(health=ANY) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(where=f"{HOST}:{served.server.health_port}")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_port_that_is_not_configured_is_a_lookup_error() -> None:
    async with serving() as served:
        with pytest.raises(LookupError):
            served.server.health_port  # noqa: B018
        await served.apply(None)
        with pytest.raises(LookupError):
            served.server.port  # noqa: B018


@pytest.mark.parametrize("size", [5_000_000, 70_000])
async def test_a_message_may_be_larger_than_grpc_s_default(size: int) -> None:
    body = CHAT[:-1] + b" " * size + b"}"
    async with serving() as served:
        replies = await served.ask(
            request_headers({"x-llm-d-model-name-rewrite": "x"}, mode=BUFFERED), request_body(body, ends=True)
        )
        assert len(replies[1].request_body.response.body_mutation.body) == len(body) - len("demo") + 1


async def test_a_message_that_is_too_large_is_rejected() -> None:
    async with serving(message_bytes=1000) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask(request_headers(), request_body(b"x" * 1000))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await until(lambda: served.is_at_rest)


async def test_with_tls_requests_are_encrypted_and_health_is_not() -> None:
    address = Address("localhost", 0)
    async with serving(address, address, tls=True, identity=IDENTITIES[0]) as served:
        async with secure(f"localhost:{served.server.port}", IDENTITIES[0].certificate) as channel:
            call = ExternalProcessorStub(channel).Process()
            for message in ASKED:
                await call.write(message)
            assert destination_of(await call.read()) == WHERE
            call.cancel()
        with pytest.raises(grpc.aio.AioRpcError):
            await served.ask(*ASKED)
        assert await is_healthy(plain(f"localhost:{served.server.health_port}"))


@pytest.mark.parametrize("bind", [HOST, "localhost", ALL])
async def test_it_listens_where_it_is_configured(bind: str) -> None:
    async with serving(Address(bind, 0)) as served:
        assert await accepts_connections(served.server.port)


async def test_it_listens_on_ipv6() -> None:
    async with serving(Address("::1", 0)) as served:
        assert kinds_of(await served.ask(*ASKED, where=f"[::1]:{served.server.port}"))[0] == "request_headers"


async def test_it_listens_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(Address(f"unix:{path}", 0)) as served:
        assert (await served.destination(), served.server.port) == (WHERE, 0)
    assert names_in(tmp_path) == []


# -- addresses that can't be bound


def taken(served: Served, _: Path) -> Address:
    return Address(HOST, served.server.port)


def no_folder(_: Served, folder: Path) -> Address:
    return Address(f"unix:{folder}/none/s", 0)


def not_a_socket(_: Served, folder: Path) -> Address:
    (folder / "file").write_text("mine")
    return Address(f"unix:{folder}/file", 0)


def too_long(_: Served, folder: Path) -> Address:
    return Address(f"unix:{folder}/{'x' * LONGEST_SOCKET}", 0)


@pytest.mark.parametrize("make", [taken, no_folder, not_a_socket, too_long])
async def test_an_address_that_can_not_be_bound_is_an_os_error_that_names_it(
    make: Callable[[Served, Path], Address], tmp_path: Path
) -> None:
    async with serving() as holder:
        address, served = make(holder, tmp_path), Served()
        with pytest.raises(OSError, match=f"can't listen on {address}: "):
            await served.apply(served.configured(address))
        assert (served.own_ports._ports, served.server._ports) == ([], {})
    assert names_in(tmp_path) == (["file"] if make is not_a_socket else [])
    assert make is not not_a_socket or (tmp_path / "file").read_text() == "mine"


async def test_a_port_is_not_shared_with_another_process() -> None:
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((HOST, 0))
        holder.listen()
        served = Served()
        with pytest.raises(OSError, match="can't listen on"):
            await served.apply(served.configured(Address(HOST, holder.getsockname()[1])))


async def test_if_the_port_for_health_can_not_be_bound_nothing_stays_open() -> None:
    port = free_port()
    async with serving() as holder:
        served = Served()
        with pytest.raises(OSError, match=str(holder.server.port)):
            await served.apply(served.configured(Address(HOST, port), Address(HOST, holder.server.port)))
        assert not await accepts_connections(port)
        await served.apply(served.configured(Address(HOST, port)))  # the port is free
        await served.server.stop(0)


# -- the next configuration


async def refuses(context: Any) -> None:
    """Serves a stream of another configuration."""
    await context.abort(grpc.StatusCode.UNAVAILABLE, "the next one")


async def test_each_stream_is_served_by_the_configuration_that_it_began_with() -> None:
    async with serving() as served, responding(served) as call:
        before = served.server.port
        await served.apply(served.configured(process=refuses))
        with pytest.raises(grpc.aio.AioRpcError, match="the next one"):
            await served.ask()
        assert (await end(call), served.server.port) == (["response_body"], before)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"process": refuses}, True, id="the handler"),
        pytest.param({"identity": IDENTITIES[1]}, True, id="the certificate"),
        pytest.param({"identity": None}, True, id="a self-signed certificate"),
        pytest.param({"health": ANY}, True, id="a port for health"),
        pytest.param(
            {"identity": replace(IDENTITIES[0], client_authorities=IDENTITIES[1].certificate)},
            False,
            id="client certificates",
        ),
        pytest.param({"tls": False}, False, id="no TLS"),
        pytest.param({"message_bytes": 1000}, False, id="the size of messages"),
        pytest.param({"listen": Address("127.0.0.2", 0)}, False, id="the address"),
    ],
)
async def test_a_port_is_kept_if_grpc_can_change_the_rest(change: dict[str, Any], kept: bool) -> None:
    async with serving(tls=True, identity=IDENTITIES[0]) as served:
        assert served.service is not None
        before = served.server.port
        await served.apply(replace(served.service, **change))
        assert (served.server.port == before, len(served.own_ports._ports)) == (kept, 1 + ("health" in change))


async def test_it_moves_to_another_port() -> None:
    async with serving() as served:
        before = served.server.port
        await served.apply(served.configured(Address(HOST, free_port())))
        assert (await served.destination(), served.server.port != before) == (WHERE, True)
        await until(lambda: not served.server._closing)
        assert not await accepts_connections(before)


@pytest.mark.parametrize("binds", [(ALL, HOST, ALL), (HOST, HOST, HOST)], ids="->".join)
async def test_a_port_may_be_bound_anew_while_it_is_in_use(binds: tuple[str, ...]) -> None:
    port = free_port()
    async with serving(Address(binds[0], port)) as served, responding(served) as call:
        for message_bytes, bind in enumerate(binds, 10**6):
            await served.apply(served.configured(Address(bind, port), message_bytes=message_bytes))
            await until(lambda: listening_at(port) == 1)
            assert [await served.destination() for _ in range(5)] == [WHERE] * 5
            assert (served.server.port, served.own_ports._ports) == (port, [port])
        assert await end(call) == ["response_body"]


async def test_plain_connections_may_be_followed_by_tls_on_one_port() -> None:
    address = Address(HOST, free_port())
    async with serving(address) as served:
        for identity in IDENTITIES:
            await served.apply(served.configured(address, tls=True, identity=identity))
            await until(lambda: listening_at(address.port) == 1)
            found = [await is_healthy(secure(served.where, one.certificate)) for one in IDENTITIES]
            assert found == [one is identity for one in IDENTITIES]
        assert not await is_healthy(plain(served.where))
        await served.apply(served.configured(address))
        await until(lambda: listening_at(address.port) == 1)
        assert await is_healthy(plain(served.where))


async def test_a_renewed_certificate_is_used_for_new_connections_and_open_ones_stay_open() -> None:
    async with serving(tls=True, identity=IDENTITIES[0]) as served:
        async with secure(served.where, IDENTITIES[0].certificate) as channel:
            health = HealthStub(channel)
            await health.Check(HealthCheckRequest(), timeout=GUARD)
            await served.apply(served.configured(tls=True, identity=IDENTITIES[1]))
            assert await is_healthy(secure(served.where, IDENTITIES[1].certificate))
            assert not await is_healthy(secure(served.where, IDENTITIES[0].certificate))
            await health.Check(HealthCheckRequest(), timeout=GUARD)


async def test_the_self_signed_certificate_is_the_same_for_every_configuration() -> None:
    async with serving(tls=True) as served:
        certificate = served.server._self_signed.certificate
        found = [await is_healthy(secure(served.where, certificate))]
        for fields in ({"identity": IDENTITIES[0]}, {}, {"message_bytes": 1000}):
            await served.apply(served.configured(tls=True, **fields))
            found.append(await is_healthy(secure(served.where, certificate)))
        assert found == [True, False, True, True]


async def test_a_stream_continues_when_its_port_closes() -> None:
    async with serving() as served:
        async with responding(served) as call:
            await served.apply(served.configured(Address(HOST, free_port())))
            assert await end(call) == ["response_body"]
        await until(lambda: not served.server._closing)
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_stream_that_does_not_end_is_aborted_after_its_port_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GOING_AWAY", 0.01)
    async with serving() as served, responding(served) as call:
        await served.apply(served.configured(Address(HOST, free_port())))
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        await until(lambda: served.is_at_rest)


@pytest.mark.parametrize("health", [None, ANY])
async def test_a_configuration_without_a_proxy_closes_all_ports(health: Address | None) -> None:
    async with serving(health=health) as served, responding(served) as call:
        port = served.server.port
        await served.apply(None)
        assert await end(call) == ["response_body"]
        await until(lambda: not served.server._closing)
        assert (await accepts_connections(port), served.own_ports._ports) == (False, [])


async def test_the_port_for_health_may_go_alone() -> None:
    async with serving(health=ANY) as served:
        port, health_port = served.server.port, served.server.health_port
        await served.apply(served.configured())
        await until(lambda: not served.server._closing)
        assert [await accepts_connections(one) for one in (port, health_port)] == [True, False]


async def test_a_configuration_that_can_not_be_applied_changes_nothing() -> None:
    async with serving() as served, serving() as other:
        with pytest.raises(OSError, match="can't listen on"):
            await served.apply(served.configured(Address(HOST, other.server.port)))
        assert await served.destination() == WHERE


@pytest.mark.parametrize("same_port", [False, True])
async def test_a_port_that_is_abandoned_is_released(same_port: bool) -> None:
    first = Address(HOST, free_port())
    second = first if same_port else Address(HOST, free_port())
    async with serving(first) as served:
        for _ in range(2):
            await served.server.bind(served.configured(second, message_bytes=1000))
            await served.server.abandon()
        await until(lambda: listening_at(first.port) == 1)
        assert [await served.destination() for _ in range(8)] == [WHERE] * 8
        assert (await accepts_connections(second.port), served.own_ports._ports) == (same_port, [first.port])


async def test_a_unix_socket_is_replaced_without_a_gap(tmp_path: Path) -> None:
    address = Address(f"unix:{tmp_path}/s", 0)
    async with serving(address) as served:
        for size in (10**6, 10**7):
            async with responding(served) as call:
                await served.apply(served.configured(address, message_bytes=size))
                assert (await served.destination(), await end(call)) == (WHERE, ["response_body"])
            await until(lambda: not served.server._closing)
            assert names_in(tmp_path) == ["s"]
    assert names_in(tmp_path) == []


async def test_a_unix_socket_that_is_abandoned_leaves_nothing(tmp_path: Path) -> None:
    address = Address(f"unix:{tmp_path}/s", 0)
    async with serving(address) as served:
        await served.server.bind(served.configured(address, message_bytes=1000))
        await served.server.bind(served.configured(Address(f"unix:{tmp_path}/t", 0)))
        await served.server.abandon()
        assert (names_in(tmp_path), await served.destination()) == (["s"], WHERE)


async def test_a_unix_socket_left_by_a_process_that_is_gone_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "s"))
    async with serving(Address(f"unix:{tmp_path}/s", 0)) as served:
        assert await served.destination() == WHERE
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("name", ["s", "a-name-that-is-longer"])
async def test_the_path_of_a_unix_socket_may_be_as_long_as_the_system_allows(name: str, tmp_path: Path) -> None:
    folder = tmp_path / ("x" * (LONGEST_SOCKET - len(str(tmp_path)) - len(name) - 2))
    folder.mkdir()
    async with serving(Address(f"unix:{folder}/{name}", 0)) as served:
        assert (await served.destination(), names_in(folder)) == (WHERE, [name])
    assert names_in(folder) == []


# -- it stops


async def test_it_stops_when_its_streams_have_ended() -> None:
    async with serving() as served, responding(served) as call:
        stopping = asyncio.create_task(served.server.stop(FAR))
        await until(lambda: served.admission.draining)
        assert await end(call) == ["response_body"]
        await stopping
        assert served.endings == [(Ending.COMPLETED, True)]


async def test_a_stream_that_does_not_end_is_aborted() -> None:
    async with serving() as served, responding(served) as call:
        await served.server.stop(0.01)
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        await until(lambda: served.is_at_rest)
        assert served.endings == [(Ending.CLIENT_LEFT, True)]


async def test_a_stopped_server_accepts_no_connection() -> None:
    async with serving(health=ANY) as served:
        ports = [served.server.port, served.server.health_port]
        await served.server.stop(FAR)
        assert [await accepts_connections(port) for port in ports] == [False, False]


async def test_a_stream_that_begins_while_it_drains_is_rejected() -> None:
    async with serving() as served:
        served.admission.draining = True
        (reply,) = await served.ask(ASKED[0])
        assert reply.immediate_response.status.code == 503


async def test_it_stops_in_time_while_a_previous_port_closes() -> None:
    async with serving() as served, responding(served):
        await served.apply(served.configured(Address(HOST, free_port())))
        async with asyncio.timeout(GUARD):
            await served.server.stop(0.01)


async def test_a_watch_of_its_health_does_not_keep_it_from_stopping() -> None:
    async with serving() as served:
        async with grpc.aio.insecure_channel(served.where) as channel:
            watching = HealthStub(channel).Watch(HealthCheckRequest())
            await watching.read()
            async with asyncio.timeout(GUARD):
                await served.server.stop(FAR)


# -- made when it is first needed


def lazy() -> ExtProc:
    return ExtProc(service=lambda: None, ready=lambda: True, own_ports=OwnPorts())


async def test_without_a_configuration_for_proxies_there_is_no_server() -> None:
    ext_proc = lazy()
    assert ext_proc.listeners(None) == ()
    await ext_proc.stop(0)
    assert ext_proc._server is None


async def test_there_is_one_server_and_a_configuration_without_proxies_closes_its_ports() -> None:
    ext_proc, served = lazy(), Served()
    for service in (served.configured(), None):
        (listener,) = ext_proc.listeners(service)
        await listener.bind()
        await listener.serve()
        assert isinstance(ext_proc.server, ExtProcServer)
        assert len(ext_proc.server._ports) == (service is not None)
    await ext_proc.stop(0)
    assert ext_proc.server.admission.draining
