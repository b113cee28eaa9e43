"""An Envoy of one's own in front of `pointsman serve`: a process that only picks, over TLS and without."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from openai import APIStatusError, AsyncOpenAI

from tests.support import envoys as gateways
from tests.support.engines import FakeEngine, fake_engine
from tests.support.envoys import SERVED, Envoy, GatewayPool, envoy_in_front, subset_header
from tests.support.processes import Process
from tests.support.running import until
from tests.support.served import Served, Stream, chunk_of, completes, endpoint, picks, refusing, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAMS = 200
REASON = "x-llm-d-request-dropped-reason"
GONE = ("gone-chat", "gone-stream")
"""Endpoints that take no connection, of which the picker does not know it until a request meets them."""
MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
CHAT = {"model": "demo", "messages": MESSAGES}
FULL = {
    "request_header_mode": "SEND", "response_header_mode": "SEND",
    "request_body_mode": "FULL_DUPLEX_STREAMED", "response_body_mode": "FULL_DUPLEX_STREAMED",
    "request_trailer_mode": "SEND", "response_trailer_mode": "SEND",
}  # fmt: skip
MODES = {
    "/buffered": {"request_body_mode": "BUFFERED", "response_body_mode": "NONE"},
    "/streamed": {"request_body_mode": "STREAMED", "response_body_mode": "STREAMED"},
    "/blind": {"request_body_mode": "NONE", "response_body_mode": "BUFFERED"},
    "/half": {**FULL, "response_body_mode": "NONE", "response_trailer_mode": "SKIP"},
}
"""Ways to tell bodies besides the one that is recommended, by the path of the route that has it."""
PLAIN = {"enabled": True, "bind": "127.0.0.1", "port": 0, "healthPort": 0, "tls": {"enabled": False}}


@dataclass(frozen=True)
class World:
    """Two engines, two pickers for them, and a gateway that asks now the one, now the other."""

    a: FakeEngine
    b: FakeEngine
    picker: Served
    """By TLS, with a certificate that it made itself; tells two endpoints at once."""
    plain: Served
    """Without TLS; tells one endpoint."""
    empty: Served
    """Has no endpoints."""
    envoy: Envoy
    client: aiohttp.ClientSession

    def openai(self, path: str = "") -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.envoy.url}{path}/v1", api_key="none", max_retries=0)

    def chat(self, path: str = "", **more: Any) -> aiohttp.client._RequestContextManager:
        """A chat request, to be entered with `async with`."""
        return self.client.post(f"{self.envoy.url}{path}/v1/chat/completions", **{"json": CHAT, **more})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("pickers")
    async with AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(fake_engine(completes(name))) for name in "ab"]
        gone = [stack.enter_context(refusing()) for _ in GONE]
        pool = [endpoint("a", a.port), endpoint("b", b.port)]
        with_gone = [*pool, *(endpoint(name, port, metricsPort=a.port) for name, port in zip(GONE, gone, strict=True))]
        picker, plain, empty = await asyncio.gather(
            *(
                stack.enter_async_context(serving(configuration))
                for configuration in (
                    picking(with_gone, picks(folder, announces=2), {**PLAIN, "tls": {"enabled": True}}),
                    picking(pool, with_a_strict_profile(picks(folder)), {**PLAIN, "limits": {"bodyBytes": "2Mi"}}),
                    picking([], picks(folder), PLAIN),
                )
            )
        )
        ports = [a.port, b.port]
        pools = [
            *(GatewayPool(plain.port, ports, prefix=path, processing=mode) for path, mode in MODES.items()),
            GatewayPool(plain.port, [], prefix="/original", by="original_dst"),
            GatewayPool(plain.port, ports, prefix="/plain", by="header"),
            GatewayPool(empty.port, ports, prefix="/empty"),
        ]
        secure = GatewayPool(picker.port, [*ports, *gone], picker_tls=True, retries=2)
        envoy = await stack.enter_async_context(envoy_in_front(*pools, secure))
        connector = aiohttp.TCPConnector(limit=0)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        yield World(a, b, picker, plain, empty, envoy, client)


@pytest.fixture
def world(shared: World) -> World:
    """With engines that answer at once, and have seen nothing."""
    for name, engine in (("a", shared.a), ("b", shared.b)):
        engine.answer = completes(name)
        engine.seen.clear()
    return shared


def picking(
    endpoints: list[Mapping[str, Any]], picks: Mapping[str, Any], ext_proc: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The configuration of a process that only picks."""
    return {
        **picks,
        "pool": {"endpoints": endpoints},
        "transports": {"http": {"enabled": False}, "extProc": ext_proc},
    }


def with_a_strict_profile(picks: Mapping[str, Any]) -> Mapping[str, Any]:
    """`picks`, and a profile `strict` that keeps only endpoints that the request names."""
    name = "header-based-testing-filter"
    strict = {"name": "strict", "plugins": [{"pluginRef": name}, {"pluginRef": "max-score-picker"}]}
    return {
        "plugins": [*picks["plugins"], {"type": name}],
        "schedulingProfiles": [*picks["schedulingProfiles"], strict],
    }


# -- clients


@pytest.mark.parametrize("path", ["", "/original", "/plain", *MODES])
async def test_a_chat_is_answered_by_the_endpoint_that_was_picked(world: World, path: str) -> None:
    async with world.openai(path) as client:
        for name in "ab":
            answer = await client.chat.completions.create(
                model="demo", messages=MESSAGES, extra_headers={"prefer": name}
            )
            assert (answer.choices[0].message.content or "").startswith(f"{name}: ")
    picker = world.picker if not path else world.plain
    await picker.is_idle()


@pytest.mark.parametrize("path", ["", "/original", "/plain", "/buffered", "/streamed", "/half"])
async def test_pieces_arrive_while_the_engine_goes_on_generating(world: World, path: str) -> None:
    stream = world.a.answer = Stream()
    picker = world.picker if not path else world.plain
    async with world.openai(path) as client:
        arrived = []
        pieces = await client.chat.completions.create(model="demo", messages=MESSAGES, stream=True)
        async for piece in pieces:
            arrived.append(piece.choices[0].delta.content)
            if path != "/half":
                assert await picker.in_flight() == {"a": 1}
            stream.goes_on()
    assert arrived == ["one", "two", "three"]
    await picker.is_idle()


async def test_an_answer_that_the_gateway_buffers_comes_whole(world: World) -> None:
    stream = world.a.answer = Stream()
    stream.ends()
    async with world.openai("/blind") as client:
        pieces = await client.chat.completions.create(model="demo", messages=MESSAGES, stream=True)
        assert [piece.choices[0].delta.content async for piece in pieces] == ["one", "two", "three"]


@pytest.mark.parametrize("path", ["", "/original"])
async def test_two_hundred_streams_at_once_are_all_served_whole(world: World, path: str) -> None:
    stream = world.a.answer = world.b.answer = Stream(["one", "two"])
    picker = world.picker if not path else world.plain

    async def text(number: int) -> bytes:
        async with world.chat(path, json={**CHAT, "stream": True}, headers={"prefer": "ab"[number % 2]}) as answer:
            assert answer.status == 200
            return await answer.read()

    requests = [asyncio.create_task(text(number)) for number in range(STREAMS)]
    await until(lambda: stream.begun == STREAMS, within=30)
    await picker.has_in_flight({"a": STREAMS / 2, "b": STREAMS / 2})
    stream.ends()
    assert set(await asyncio.gather(*requests)) == {chunk_of("one") + chunk_of("two") + b"data: [DONE]\n\n"}
    await picker.is_idle()


@pytest.mark.parametrize("size", [1_000_000, 5_000_000])
async def test_a_prompt_of_megabytes_arrives_as_it_was_sent(world: World, size: int) -> None:
    body = json.dumps({"model": "demo", "prompt": "lorem " * (size // 6)}).encode()
    async with world.client.post(f"{world.envoy.url}/v1/completions", data=BytesIO(body)) as answer:
        assert answer.status == 200
    (seen,) = world.a.seen
    assert hashlib.sha256(seen.body).digest() == hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            "",
            marks=pytest.mark.xfail(
                strict=True,
                reason="Envoy keeps a body for retries, and goes on with all of it once more after the trailers",
            ),
            id="with retries",
        ),
        pytest.param("/original", id="without retries"),
    ],
)
async def test_a_chunked_upload_with_trailers_is_served(world: World, path: str) -> None:
    body = json.dumps(CHAT).encode()
    head = f"POST {path}/v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", world.envoy.port)
    writer.write(head.encode() + b"connection: close\r\n\r\n")
    for piece in (body[:10], body[10:]):
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\nx-sum: 1\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert [seen.body for seen in world.a.seen] == [body]


async def test_a_client_that_leaves_in_mid_stream_is_no_longer_in_flight_and_the_engine_hears_of_it(
    world: World,
) -> None:
    stream = world.a.answer = Stream()
    left = await world.picker.ended("client-left")
    async with world.chat(json={**CHAT, "stream": True}) as answer:
        await answer.content.readany()
        await world.picker.has_in_flight({"a": 1})
        answer.close()
    await asyncio.wait_for(stream.left.wait(), 10)
    await world.picker.is_idle()
    assert await world.picker.ended("client-left") == left + 1


async def test_a_client_that_leaves_before_the_head_of_its_answer_is_no_longer_in_flight(world: World) -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    world.a.answer = never
    left = await world.picker.ended("client-left")

    async def ask() -> None:
        async with world.chat():
            pass

    request = asyncio.create_task(ask())
    await world.picker.has_in_flight({"a": 1})
    request.cancel()
    await world.picker.is_idle()
    assert await world.picker.ended("client-left") == left + 1


# -- where requests may go


async def test_a_subset_that_the_gateway_names_goes_before_what_scores_best(world: World) -> None:
    for name, engine in (("a", world.a), ("b", world.b)):
        async with world.chat(headers=subset_header(f"127.0.0.1:{engine.port}")) as answer:
            assert (answer.status, answer.headers[SERVED]) == (200, f"127.0.0.1:{engine.port}")
            assert (await answer.json())["choices"][0]["message"]["content"].startswith(f"{name}: ")
        assert len(engine.seen) == 1


@pytest.mark.parametrize("addresses", [(), ("127.0.0.1:1",), ("no address",)], ids=["empty", "foreign", "senseless"])
async def test_a_subset_that_leaves_no_endpoint_is_503_with_the_reason(
    world: World, addresses: tuple[str, ...]
) -> None:
    async with world.chat(headers=subset_header(*addresses)) as answer:
        assert (answer.status, answer.headers[REASON]) == (503, "rejected-no-endpoints")
        assert (await answer.json())["error"]["type"] == "service_unavailable_error"
    assert not world.a.seen
    assert not world.b.seen


async def test_the_second_endpoint_of_the_list_serves_when_the_first_takes_no_connection(world: World) -> None:
    failed = await world.picker.ended("upstream-failed")
    async with world.chat(headers={"prefer": "gone-chat,b", "x-request-id": "went-on"}) as answer:
        assert (answer.status, answer.headers[SERVED]) == (200, f"127.0.0.1:{world.b.port}")
    assert len(world.b.seen) == 1
    told = await world.picker.logged("went-on")
    assert "attempts=2 " in told
    assert " endpoint=b " in told
    assert " status=200 " in told
    assert re.search(r" ttft_ms=[\d.]+$", told)
    assert "ttft_from" not in told
    assert await world.picker.ended("upstream-failed") == failed + 1
    await until_state(world.picker, "gone-chat", "down")
    await world.picker.is_idle()


async def test_a_stream_that_went_on_to_the_second_endpoint_is_in_flight_there(world: World) -> None:
    stream = world.b.answer = Stream()
    async with world.chat(json={**CHAT, "stream": True}, headers={"prefer": "gone-stream,b"}) as answer:
        await answer.content.readany()
        await world.picker.has_in_flight({"b": 1})
        stream.ends()
        assert (await answer.read()).endswith(b"data: [DONE]\n\n")
    await world.picker.is_idle()


# -- what is refused


async def test_an_empty_pool_is_503_and_the_client_sees_the_reason(world: World) -> None:
    async with world.openai("/empty") as client:
        with pytest.raises(APIStatusError) as raised:
            await client.chat.completions.create(model="demo", messages=MESSAGES)
    answer = raised.value.response
    assert (answer.status_code, answer.headers[REASON]) == (503, "rejected-no-endpoints")
    assert raised.value.type == "service_unavailable_error"


async def test_filters_that_leave_no_endpoint_are_429_and_the_client_sees_the_reason(world: World) -> None:
    async with world.chat("/plain", headers={"EPP-Profile": "strict"}) as answer:
        assert (answer.status, answer.headers[REASON]) == (429, "rejected-saturated")
        assert (await answer.json())["error"]["code"] == "rate_limit_exceeded"
    named = {"EPP-Profile": "strict", "test-epp-endpoint-selection": f"127.0.0.1:{world.b.port}"}
    async with world.chat("/plain", headers=named) as answer:
        assert answer.headers[SERVED] == f"127.0.0.1:{world.b.port}"


async def test_a_body_over_the_limit_is_413_and_nothing_stays_behind(world: World) -> None:
    long = json.dumps({**CHAT, "user": "x" * 3 * 1024 * 1024}).encode()
    async with world.chat("/plain", json=None, data=BytesIO(long)) as answer:
        assert (answer.status, answer.headers[REASON]) == (413, "rejected-too-large")
        assert (await answer.json())["error"]["type"] == "invalid_request_error"
    assert not world.a.seen
    async with world.chat("/plain") as answer:
        assert answer.status == 200
    await world.plain.is_idle()


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        pytest.param(b"{", 400, "rejected-bad-request", id="no JSON"),
        pytest.param(json.dumps({**CHAT, "model": "nobody"}).encode(), 404, "rejected-unknown-model", id="no model"),
    ],
)
async def test_a_request_that_can_not_be_served_is_told_why(
    world: World, body: bytes, status: int, reason: str
) -> None:
    async with world.chat("/plain", json=None, data=body) as answer:
        assert (answer.status, answer.headers[REASON]) == (status, reason)


# -- gateways that come, go, and wait no longer


async def test_a_gateway_that_is_killed_leaves_nothing_in_flight_and_is_served_again(world: World) -> None:
    stream = world.a.answer = Stream()
    pool = GatewayPool(world.picker.port, [world.a.port, world.b.port], picker_tls=True)
    async with envoy_in_front(pool) as envoy:
        url = f"{envoy.url}/v1/chat/completions"
        async with world.client.post(url, json={**CHAT, "stream": True}) as answer:
            await answer.content.readany()
            await world.picker.has_in_flight({"a": 1})
            await envoy.stop()
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        await world.picker.is_idle()
        await asyncio.wait_for(stream.left.wait(), 10)
        world.a.answer = completes("a")
        await envoy.start()
        async with world.client.post(url, json=CHAT) as answer:
            assert answer.status == 200


async def test_a_gateway_that_waits_no_longer_for_the_picker_answers_and_nothing_stays_in_flight(world: World) -> None:
    pool = GatewayPool(world.plain.port, [world.a.port], message_timeout="0.2s", processing=MODES["/buffered"])
    async with envoy_in_front(pool) as envoy:
        url = f"{envoy.url}/v1/chat/completions"
        world.plain.process.process.send_signal(signal.SIGSTOP)
        try:
            async with world.client.post(url, json=CHAT) as answer:
                assert answer.status == 504
        finally:
            world.plain.process.process.send_signal(signal.SIGCONT)
        assert not world.a.seen
        async with world.client.post(url, json=CHAT) as answer:
            assert answer.status == 200
    await world.plain.is_idle()
    assert not traces_in(world.plain.process)


async def test_without_a_picker_requests_are_served_by_any_endpoint_if_the_gateway_allows_it(world: World) -> None:
    with refusing() as nobody:
        lenient = GatewayPool(nobody, [world.a.port], prefix="/lenient", fail_open=True, processing=MODES["/buffered"])
        async with envoy_in_front(lenient, GatewayPool(nobody, [world.a.port])) as envoy:
            async with world.client.post(f"{envoy.url}/lenient/v1/chat/completions", json=CHAT) as answer:
                assert answer.status == 200
                assert REASON not in answer.headers
            async with world.client.post(f"{envoy.url}/v1/chat/completions", json=CHAT) as answer:
                assert answer.status >= 500
    assert len(world.a.seen) == 1


async def test_the_documented_configuration_serves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "bootstrap", documented(world))
    async with envoy_in_front() as envoy:
        async with AsyncOpenAI(base_url=f"{envoy.url}/v1", api_key="none", max_retries=0) as client:
            whole = await client.chat.completions.create(model="demo", messages=MESSAGES)
        assert (whole.choices[0].message.content or "").startswith("a: ")
        async with world.client.post(f"{envoy.url}/v1/chat/completions", json=CHAT, headers={"prefer": "b"}) as answer:
            assert answer.headers[SERVED] == f"127.0.0.1:{world.b.port}"
    await world.picker.is_idle()


@pytest.mark.parametrize(
    "health",
    [
        pytest.param(
            {},
            id="as documented",
        ),
        pytest.param({"tls_options": {"alpn_protocols": ["h2"]}}, id="with ALPN"),
    ],
)
async def test_a_gateway_sees_by_its_health_check_that_the_picker_is_well(
    world: World, monkeypatch: pytest.MonkeyPatch, health: Mapping[str, Any]
) -> None:
    monkeypatch.setattr(gateways, "bootstrap", documented(world, health))
    async with envoy_in_front() as envoy:
        assert await envoy.stat("cluster.endpoint_picker.membership_healthy") == 1
        assert await envoy.stat("cluster.endpoint_picker.health_check.failure") == 0


def documented(world: World, health: Mapping[str, Any] | None = None) -> Any:
    """`docs/gateways/envoy.yaml` with other addresses, and with `health` in the check of the picker."""

    def bootstrap(_: object, *, port: int, admin_port: int) -> Mapping[str, Any]:
        file = Path(__file__).parents[2] / "docs" / "gateways" / "envoy.yaml"
        whole = yaml.safe_load(file.read_text())
        resources = whole["static_resources"]
        resources["listeners"][0]["address"] = _address(port)
        for cluster, ports in zip(
            resources["clusters"], ([world.picker.port], [world.a.port, world.b.port]), strict=True
        ):
            told = [{"endpoint": {"address": _address(port)}} for port in ports]
            cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": told}]
        resources["clusters"][0]["health_checks"][0].update(health or {})
        return {**whole, "admin": {"address": _address(admin_port)}}

    return bootstrap


def _address(port: int) -> Mapping[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


# -- the end of the picker


async def test_sigterm_is_told_by_the_health_service_and_waits_for_streams(world: World, tmp_path: Path) -> None:
    stream = world.a.answer = Stream()
    health = free_port()
    ext_proc = {**PLAIN, "healthPort": health}
    configuration = picking([endpoint("a", world.a.port)], picks(tmp_path), ext_proc)
    async with serving({**configuration, "shutdown": {"delay": "2s"}}) as picker, AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(envoy_in_front(GatewayPool(picker.port, [world.a.port])))
        stub = HealthStub(await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{health}")))
        watch = stub.Watch(HealthCheckRequest(service="envoy.service.ext_proc.v3.ExternalProcessor"))
        assert (await watch.read()).status == HealthCheckResponse.SERVING
        url = f"{envoy.url}/v1/chat/completions"
        async with world.client.post(url, json={**CHAT, "stream": True}) as answer:
            await answer.content.readany()
            picker.process.process.send_signal(signal.SIGTERM)
            assert (await asyncio.wait_for(watch.read(), 10)).status == HealthCheckResponse.NOT_SERVING
            assert (await stub.Check(HealthCheckRequest(service="liveness"))).status == HealthCheckResponse.SERVING
            world.a.answer = completes("a")
            async with world.client.post(url, json=CHAT) as late:  # gateways need time to hear of it
                assert late.status == 200
            watch.cancel()
            await until_refusing(picker.port)
            assert picker.process.process.returncode is None
            stream.ends()
            assert (await answer.read()).endswith(b"data: [DONE]\n\n")
        assert await picker.process.ends() == 0
        assert not traces_in(picker.process)


async def test_streams_that_do_not_end_in_time_are_broken_off_and_the_exit_code_is_0(
    world: World, tmp_path: Path
) -> None:
    world.a.answer = Stream()
    configuration = picking([endpoint("a", world.a.port)], picks(tmp_path), PLAIN)
    async with serving({**configuration, "shutdown": {"timeout": "100ms"}}) as picker:
        async with envoy_in_front(GatewayPool(picker.port, [world.a.port])) as envoy:
            url = f"{envoy.url}/v1/chat/completions"
            async with world.client.post(url, json={**CHAT, "stream": True}) as answer:
                await answer.content.readany()
                picker.process.process.send_signal(signal.SIGTERM)
                assert await picker.process.ends() == 0
        assert not traces_in(picker.process)


def traces_in(process: Process) -> list[str]:
    """Lines that nobody should have to read."""
    return [line for line in process.lines if "Traceback" in line or "never" in line]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def until_refusing(port: int) -> None:
    """Waits until nobody takes connections there."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.02)


async def until_state(picker: Served, name: str, state: str) -> None:
    """Waits until the picker sees an endpoint so."""
    async with asyncio.timeout(20):
        while (await picker.endpoints())[name]["state"] != state:
            await asyncio.sleep(0.02)
