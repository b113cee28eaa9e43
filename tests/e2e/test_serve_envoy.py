"""`pointsman serve --envoy`: an Envoy in the place of the router, started, told of endpoints, watched and drained."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from openai import APIStatusError, AsyncOpenAI, NotFoundError

from app.__main__ import main
from tests.support.engines import FakeEngine, fake_engine
from tests.support.processes import Process, run
from tests.support.running import until
from tests.support.served import HERE, Served, Stream, chunk_of, completes, endpoint, picks, refusing, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

TLS = Path(__file__).parents[1] / "data" / "tls"
CERTIFICATES = ["--cacert", f"{TLS}/ca.pem", "--cert", f"{TLS}/client.pem", "--key", f"{TLS}/client.key"]
STREAMS = 200
REASON = "x-llm-d-request-dropped-reason"
SERVED = "x-gateway-destination-endpoint-served"
MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]
CHAT = {"model": "demo", "messages": MESSAGES}
STREAMED = {**CHAT, "stream": True}
WHOLE = chunk_of("one") + chunk_of("two") + chunk_of("three") + b"data: [DONE]\n\n"


@dataclass(frozen=True)
class World:
    """Engines, and processes that serve with an Envoy in front of them."""

    a: FakeEngine
    b: FakeEngine
    encrypted: FakeEngine
    """By TLS."""
    main: Served
    """Has `a` and `b`."""
    one: Served
    """Has `a` and one that takes no connection; Envoy is told one endpoint."""
    two: Served
    """The same; Envoy is told both, in order."""
    listed: Served
    """Has the endpoints of `list`, which is followed."""
    list: Path
    secure: Served
    """Serves by TLS clients that show a certificate, and has `a` and `encrypted`."""
    files: Path
    """Where the certificate of `secure` lies."""
    client: aiohttp.ClientSession


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder = tmp_path_factory.mktemp("served")
    listed = folder / "endpoints.yaml"
    for kind in ("pem", "key"):
        shutil.copy(TLS / f"server.{kind}", folder / f"mine.{kind}")
    async with AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(fake_engine(completes(name))) for name in "ab"]
        encrypted = await stack.enter_async_context(fake_engine(completes("encrypted"), tls=serving_tls()))
        gone = [stack.enter_context(refusing()) for _ in range(3)]
        write_list(listed, endpoint("gone", gone[2], metricsPort=a.port))
        processes = await asyncio.gather(
            *(
                stack.enter_async_context(serving(configuration, "--envoy"))
                for configuration in (
                    with_endpoints(picks(folder), endpoint("a", a.port), endpoint("b", b.port)),
                    *(
                        with_endpoints(
                            picks(folder, announces=announced),
                            endpoint("a", a.port),
                            endpoint("gone", port, metricsPort=a.port),
                        )
                        for announced, port in ((1, gone[0]), (2, gone[1]))
                    ),
                    follows(picks(folder), listed),
                    by_tls(
                        picks(folder),
                        folder,
                        endpoint("a", a.port),
                        endpoint("encrypted", encrypted.port, scheme="https"),
                    ),
                )
            )
        )
        connector = aiohttp.TCPConnector(limit=0)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        main, one, two, following, secure = processes
        yield World(a, b, encrypted, main, one, two, following, listed, secure, folder, client)


@pytest.fixture
def world(shared: World) -> World:
    """With engines that answer at once, and have seen nothing."""
    for name in ("a", "b", "encrypted"):
        engine: FakeEngine = getattr(shared, name)
        engine.answer = completes(name)
        engine.seen.clear()
    return shared


def with_endpoints(picks: Mapping[str, Any], *endpoints: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a process with these endpoints."""
    return {**picks, "pool": {"endpoints": list(endpoints)}}


def follows(picks: Mapping[str, Any], listed: Path) -> Mapping[str, Any]:
    """One whose endpoints stand in a file."""
    discovery = {"type": "file-discovery", "name": "listed", "parameters": {"path": str(listed), "watchFile": True}}
    return {
        **picks,
        "plugins": [*picks["plugins"], discovery],
        "dataLayer": {"discovery": {"pluginRef": "listed"}},
    }


def by_tls(picks: Mapping[str, Any], folder: Path, *endpoints: Mapping[str, Any]) -> Mapping[str, Any]:
    """One with TLS on both sides."""
    files = {"certFile": f"{folder}/mine.pem", "keyFile": f"{folder}/mine.key", "clientCaFile": f"{TLS}/ca.pem"}
    return {
        **picks,
        "pool": {"endpoints": list(endpoints), "tls": {"caFile": f"{TLS}/ca.pem"}},
        "reload": {"settle": "20ms"},
        "transports": {"http": {**HERE, "tls": files}},
    }


def write_list(file: Path, *endpoints: Mapping[str, Any]) -> None:
    """Moves another list of endpoints into place."""
    new = file.with_suffix(".new")
    new.write_text(yaml.safe_dump({"endpoints": list(endpoints)}))
    new.replace(file)


def serving_tls() -> ssl.SSLContext:
    """An engine's side of TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem", TLS / "server.key")
    return context


def trusting(*, shows: bool = True) -> ssl.SSLContext:
    """A client that trusts the tests' authority, and shows a certificate."""
    context = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
    if shows:
        context.load_cert_chain(TLS / "client.pem", TLS / "client.key")
    return context


def openai(served: Served) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


def chat(world: World, served: Served, **more: Any) -> aiohttp.client._RequestContextManager:
    """A chat request, to be entered with `async with`."""
    return world.client.post(f"{served.url}/v1/chat/completions", **{"json": CHAT, **more})


async def curl(url: str, *arguments: str) -> list[str]:
    """What curl says of each of the chat requests it sends: version of HTTP, status and length of the answer."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl, the only client here that speaks HTTP/2")
    process = await asyncio.create_subprocess_exec(
        program, "-sS", "--max-time", "30", "-d", json.dumps(CHAT), "-o", "/dev/null",
        "-w", "%{http_version} %{http_code}\n", *arguments, url,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().splitlines()


# -- clients


async def test_a_chat_and_a_stream_of_the_openai_client_are_served(world: World) -> None:
    stream = Stream()
    async with openai(world.main) as client:
        whole = await client.chat.completions.create(model="demo", messages=MESSAGES)
        assert (whole.choices[0].message.content or "").startswith("a: ")
        world.a.answer = stream
        arrived = []
        async for piece in await client.chat.completions.create(model="demo", messages=MESSAGES, stream=True):
            arrived.append(piece.choices[0].delta.content)
            assert await world.main.in_flight() == {"a": 1}
            stream.goes_on()
    assert arrived == ["one", "two", "three"]
    await world.main.is_idle()


async def test_http_2_is_spoken_with_those_who_begin_with_it(world: World) -> None:
    url = f"{world.main.url}/v1/chat/completions"
    assert await curl(url, "--http2-prior-knowledge") == ["2 200"]
    assert await curl(url, "--http1.1") == ["1.1 200"]
    assert await curl(url, "--http1.0") == ["1 200"]
    await world.main.is_idle()


async def test_two_hundred_streams_at_once_are_all_served_whole(world: World) -> None:
    stream = world.a.answer = world.b.answer = Stream()

    async def text(number: int) -> bytes:
        async with chat(world, world.main, json=STREAMED, headers={"prefer": "ab"[number % 2]}) as answer:
            assert answer.status == 200
            return await answer.read()

    requests = [asyncio.create_task(text(number)) for number in range(STREAMS)]
    await until(lambda: stream.begun == STREAMS, within=30)
    await world.main.has_in_flight({"a": STREAMS / 2, "b": STREAMS / 2})
    stream.ends()
    assert set(await asyncio.gather(*requests)) == {WHOLE}
    await world.main.is_idle()


async def test_an_unknown_model_is_404(world: World) -> None:
    async with openai(world.main) as client:
        with pytest.raises(NotFoundError) as raised:
            await client.chat.completions.create(model="nobody", messages=MESSAGES)
    assert (raised.value.code, raised.value.response.headers[REASON]) == ("model_not_found", "rejected-unknown-model")
    assert not world.a.seen


async def test_what_only_the_picker_is_told_does_not_reach_the_engine(world: World) -> None:
    told = {"x-gateway-destination-endpoint": "127.0.0.1:1", "x-gateway-destination-endpoint-subset": "127.0.0.1:1"}
    async with chat(world, world.main, headers={**told, "x-mine": "1"}) as answer:
        assert (answer.status, answer.headers[SERVED]) == (200, f"127.0.0.1:{world.a.port}")
    (seen,) = world.a.seen
    assert not set(seen.headers) & set(told)
    assert seen.headers["x-mine"] == "1"


def by_http_1(body: bytes) -> bytes:
    """A chunked upload with trailers."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\nx-sum: 1\r\n\r\n"


def by_http_2(body: bytes) -> bytes:
    """The same in frames of HTTP/2: settings, headers, data, trailers."""

    def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
        return len(data).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + data

    def fields(**named: str) -> bytes:
        texts = [(name.replace("_", ":", 1).replace("_", "-"), value) for name, value in named.items()]
        return b"".join(
            b"\0" + bytes([len(part := n.encode())]) + part + bytes([len(v)]) + v.encode() for n, v in texts
        )

    head = fields(_method="POST", _scheme="http", _path="/v1/chat/completions", _authority="x")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    return preface + frame(1, 4, 1, head) + frame(0, 0, 1, body) + frame(1, 5, 1, fields(sum="1"))


@pytest.mark.parametrize("upload", [by_http_1, by_http_2])
async def test_a_body_with_trailers_arrives_once(world: World, upload: Callable[[bytes], bytes]) -> None:
    body = json.dumps(CHAT).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", world.main.port)
    writer.write(upload(body))
    await until(lambda: world.a.seen)
    await world.main.is_idle()
    await reader.read(1)
    writer.close()
    await writer.wait_closed()
    assert [seen.body for seen in world.a.seen] == [body]


async def test_an_engine_that_breaks_off_in_mid_answer_breaks_the_clients_stream_and_nothing_stays_in_flight(
    world: World,
) -> None:
    stream = world.a.answer = Stream(breaks=True)
    async with chat(world, world.main, json=STREAMED) as answer:
        await answer.content.readany()
        await world.main.has_in_flight({"a": 1})
        stream.ends()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    await world.main.is_idle()
    assert len(world.a.seen) == 1


async def test_a_client_that_leaves_in_mid_stream_is_no_longer_in_flight_and_the_engine_hears_of_it(
    world: World,
) -> None:
    stream = world.a.answer = Stream()
    left = await world.main.ended("client-left")
    async with chat(world, world.main, json=STREAMED) as answer:
        await answer.content.readany()
        await world.main.has_in_flight({"a": 1})
        answer.close()
    await asyncio.wait_for(stream.left.wait(), 10)
    await world.main.is_idle()
    assert await world.main.ended("client-left") == left + 1


# -- TLS


async def test_clients_with_a_certificate_are_served_over_tls_by_http_1_and_2(world: World) -> None:
    url = https(world)
    async with world.client.post(url, json=CHAT, ssl=trusting()) as answer:
        assert answer.status == 200
    assert await curl(url, "--http2", *CERTIFICATES) == ["2 200"]
    await world.secure.is_idle()


async def test_many_requests_at_once_over_one_connection_of_http_2_are_all_served(world: World) -> None:
    told = await curl(f"{https(world)}?n=[1-{STREAMS}]", "--http2", "-Z", "--parallel-max", "100", *CERTIFICATES)
    assert told == ["2 200"] * STREAMS
    await world.secure.is_idle()


async def test_an_endpoint_of_https_is_verified_by_its_address_and_serves(world: World) -> None:
    async with world.client.post(https(world), json=CHAT, headers={"prefer": "encrypted"}, ssl=trusting()) as answer:
        assert (answer.status, answer.headers[SERVED]) == (200, f"127.0.0.1:{world.encrypted.port}")
    assert world.encrypted.seen[0].headers["host"] == f"127.0.0.1:{world.encrypted.port}"


async def test_clients_without_a_certificate_are_not_served_where_one_is_asked_for(world: World) -> None:
    with pytest.raises(aiohttp.ClientError):
        async with world.client.post(https(world), json=CHAT, ssl=trusting(shows=False)):
            pass
    assert not world.a.seen


async def test_a_renewed_certificate_is_shown_without_a_restart(world: World) -> None:
    assert await shown(world.secure) == "server"
    for kind in ("pem", "key"):
        new = world.files / f"new.{kind}"
        shutil.copy(TLS / f"renewed.{kind}", new)
        new.replace(world.files / f"mine.{kind}")
    async with asyncio.timeout(20):
        while await shown(world.secure) != "renewed":
            await asyncio.sleep(0.02)
    assert envoy_of(world.secure.process).alive


def https(world: World) -> str:
    return f"https://127.0.0.1:{world.secure.port}/v1/chat/completions"


async def shown(served: Served) -> str:
    """The name in the certificate that clients are met with."""
    _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=trusting())
    subject = writer.get_extra_info("peercert")["subject"]
    writer.close()
    await writer.wait_closed()
    return str(dict(pair for part in subject for pair in part)["commonName"])


# -- endpoints


@pytest.mark.parametrize("announced", ["one", "two"])
async def test_an_endpoint_that_takes_no_connection_has_its_request_tried_on_another_and_metrics_say_so(
    world: World, announced: str
) -> None:
    served: Served = getattr(world, announced)
    async with chat(world, served, headers={"prefer": "gone,a", "x-request-id": "went-on"}) as answer:
        assert (answer.status, answer.headers[SERVED]) == (200, f"127.0.0.1:{world.a.port}")
    assert [seen.body for seen in world.a.seen] == [json.dumps(CHAT).encode()]
    told = await served.logged("went-on")
    assert "attempts=2 " in told
    assert " endpoint=a " in told
    assert " status=200 " in told
    assert re.search(r" ttft_ms=[\d.]+$", told)
    assert "ttft_from" not in told
    assert await served.ended("upstream-failed") == 1
    async with asyncio.timeout(20):
        while (await served.endpoints())["gone"]["state"] != "down":
            await asyncio.sleep(0.02)
    await served.is_idle()


async def test_endpoints_that_are_all_dead_are_503_and_envoy_is_told_of_those_that_come(world: World) -> None:
    served = world.listed
    async with openai(served) as client:
        with pytest.raises(APIStatusError) as raised:
            await client.chat.completions.create(model="demo", messages=MESSAGES)
    answer = raised.value.response
    assert (answer.status_code, answer.headers[REASON]) == (503, "upstream-failed")
    assert raised.value.type == "service_unavailable_error"
    assert await served.ended("upstream-failed") == 1
    await served.is_idle()
    for name, engine in (("a", world.a), ("b", world.b)):
        write_list(world.list, endpoint(name, engine.port))
        async with asyncio.timeout(20):
            while set(await served.endpoints()) != {name}:
                await asyncio.sleep(0.02)
        async with asyncio.timeout(20):  # Envoy notices the file by itself
            while await served_by(world, served) != f"127.0.0.1:{engine.port}":
                await asyncio.sleep(0.02)
    write_list(world.list)
    async with asyncio.timeout(20):
        while await served.endpoints():
            await asyncio.sleep(0.02)
    async with chat(world, served) as refused:
        assert (refused.status, refused.headers[REASON]) == (503, "rejected-no-endpoints")


async def served_by(world: World, served: Served) -> str | None:
    async with chat(world, served) as answer:
        return answer.headers.get(SERVED)


# -- Envoy's life, and its end


@dataclass(frozen=True)
class RunningEnvoy:
    """The Envoy of a process."""

    pid: int
    folder: Path

    @property
    def alive(self) -> bool:
        """Whether it runs; one that has ended and was not waited for does not."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"


def envoy_of(process: Process) -> RunningEnvoy:
    """The Envoy that a process has started."""
    pid = process.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        arguments = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        if arguments[0].endswith("envoy"):
            return RunningEnvoy(int(child), Path(arguments[arguments.index("-c") + 1]).parent)
    raise AssertionError("it has no Envoy")


async def test_an_envoy_that_is_killed_is_started_again_on_the_same_port(world: World) -> None:
    world.a.answer = Stream()
    before = envoy_of(world.main.process)
    async with chat(world, world.main, json=STREAMED) as answer:
        await answer.content.readany()
        await world.main.has_in_flight({"a": 1})
        os.kill(before.pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
    await world.main.is_idle()
    await world.main.process.says("Envoy restarted")
    world.a.answer = completes("a")
    async with chat(world, world.main) as answer:
        assert answer.status == 200
    after = envoy_of(world.main.process)
    assert after.pid != before.pid
    assert after.folder == before.folder


async def test_envoy_ends_with_a_process_that_is_killed(world: World, tmp_path: Path) -> None:
    async with serving(with_endpoints(picks(tmp_path), endpoint("a", world.a.port)), "--envoy") as served:
        envoy = envoy_of(served.process)
        served.process.process.kill()
        await served.process.ends()
        try:
            await until(lambda: not envoy.alive)
        finally:
            shutil.rmtree(envoy.folder)  # who was killed can't


async def test_sigterm_lets_a_stream_end_takes_no_new_connection_and_leaves_nothing(
    world: World, tmp_path: Path
) -> None:
    stream = world.a.answer = Stream()
    transports = {"envoy": {"enabled": True}}
    configuration = {**with_endpoints(picks(tmp_path), endpoint("a", world.a.port)), "transports": transports}
    async with serving(configuration) as served:
        envoy = envoy_of(served.process)
        async with chat(world, served, json=STREAMED) as answer:
            await answer.content.readany()
            served.process.process.send_signal(signal.SIGTERM)
            await until(lambda: refuses(served.port))
            assert envoy.alive
            stream.ends()
            assert (await answer.read()).endswith(b"data: [DONE]\n\n")
        assert await served.process.ends() == 0
    assert not envoy.alive
    assert not envoy.folder.exists()
    assert not [line for line in served.process.lines if "Traceback" in line or "never" in line]


async def test_streams_that_do_not_end_in_time_are_broken_off_and_the_exit_code_is_0(
    world: World, tmp_path: Path
) -> None:
    world.a.answer = Stream()
    configuration = with_endpoints(picks(tmp_path), endpoint("a", world.a.port))
    async with serving({**configuration, "shutdown": {"timeout": "100ms"}}, "--envoy") as served:
        envoy = envoy_of(served.process)
        async with chat(world, served, json=STREAMED) as answer:
            await answer.content.readany()
            served.process.process.send_signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientError):
                await answer.read()
        assert await served.process.ends() == 0
    assert not envoy.alive
    assert not envoy.folder.exists()
    assert not [line for line in served.process.lines if "Traceback" in line or "never" in line]


async def test_a_second_signal_ends_at_once_and_leaves_nothing(world: World, tmp_path: Path) -> None:
    world.a.answer = Stream()
    async with serving(with_endpoints(picks(tmp_path), endpoint("a", world.a.port)), "--envoy") as served:
        envoy = envoy_of(served.process)
        async with chat(world, served, json=STREAMED) as answer:
            await answer.content.readany()
            served.process.process.send_signal(signal.SIGTERM)
            await until(lambda: refuses(served.port))
            served.process.process.send_signal(signal.SIGTERM)
            assert await served.process.ends() == 0
            await until(lambda: not envoy.alive)
        left = envoy.folder.exists()
        shutil.rmtree(envoy.folder, ignore_errors=True)
    assert not left


def refuses(port: int) -> bool:
    """Whether nobody takes connections there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


# -- an Envoy that can't start


@contextmanager
def _taken(_: Path):  # type: ignore[no-untyped-def]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield {"http": {"bind": "127.0.0.1", "port": port}}, f"cannot bind '127.0.0.1:{port}': Address already in use"


@contextmanager
def _too_far_down(folder: Path):  # type: ignore[no-untyped-def]
    below = folder / ("x" * 100)
    below.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(below))
        yield {}, "the path of a Unix socket has at most 107 bytes"


@contextmanager
def _missing(folder: Path):  # type: ignore[no-untyped-def]
    yield {"envoy": {"binary": f"{folder}/nowhere"}}, f"{folder}/nowhere' is not an executable file"


@contextmanager
def _not_executable(folder: Path):  # type: ignore[no-untyped-def]
    (folder / "text").write_text("hello")
    yield {"envoy": {"binary": f"{folder}/text"}}, f"{folder}/text' is not an executable file"


@contextmanager
def _another_program(_: Path):  # type: ignore[no-untyped-def]
    yield {"envoy": {"binary": shutil.which("false")}}, "Envoy exited with code 1 before it was ready"


@contextmanager
def _of_no_format(folder: Path):  # type: ignore[no-untyped-def]
    (folder / "text").write_text("hello")
    (folder / "text").chmod(0o755)
    yield {"envoy": {"binary": f"{folder}/text"}}, "pointsman: can't start: Envoy exited"


@pytest.mark.parametrize(
    "given",
    [
        _taken,
        _missing,
        _not_executable,
        _another_program,
        pytest.param(
            _too_far_down,
        ),
        pytest.param(
            _of_no_format,
        ),
    ],
)
async def test_an_envoy_that_can_not_start_is_told_without_a_traceback(tmp_path: Path, given: Callable) -> None:
    with given(tmp_path) as (transports, expected):
        whole = {"transports": {"http": HERE, "admin": HERE, **transports}, "reload": {"watch": False}}
        code, lines = await run("serve", "--envoy", "--config-text", yaml.safe_dump(whole))
    text = "\n".join(lines)
    assert code == 1
    assert expected in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "transports: {envoy: {enabled: true}, extProc: {enabled: true}}",
            "transports.envoy and transports.extProc are both enabled",
            id="a picker for others besides",
        ),
        pytest.param(
            "transports: {envoy: {enabled: true}, http: {enabled: false}}",
            "transports.envoy listens at the address of transports.http, which is not enabled",
            id="no router",
        ),
        pytest.param(
            "transports: {envoy: {enabled: true}}\npool: {endpoints: [{name: a, address: localhost, port: 1}]}",
            "a proxy can't route to 'localhost', which is not an IP address",
            id="a host name",
        ),
        pytest.param(
            "transports: {envoy: {enabled: true}}\npool: {endpoints: [{name: a, address: 'unix:/a.sock'}]}",
            "a proxy can't route to 'unix:/a.sock', which is not an IP address",
            id="a Unix socket",
        ),
        pytest.param(
            "transports: {envoy: {enabled: true}, http: {bind: localhost}}",
            "Envoy can't listen on 'localhost', which is not an IP address",
            id="a name to listen on",
        ),
        pytest.param(
            "transports: {envoy: {enabled: true, binary: /nowhere/envoy}}",
            "'/nowhere/envoy' is not an executable file",
            id="no Envoy",
        ),
    ],
)
async def test_check_tells_what_would_not_work_with_envoy(
    text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config-text", text]) == 1
    assert told in capsys.readouterr().err


# -- reload


async def test_a_hangup_takes_over_weights_and_refuses_what_needs_another_envoy(world: World, tmp_path: Path) -> None:
    file = tmp_path / "changing.yaml"
    base = picks(tmp_path)

    def write(weight: float, **http: Any) -> None:
        profile = {"name": "default", "plugins": [{"pluginRef": "prefers", "weight": weight}, *more]}
        transports = {"http": {**HERE, **http}}
        plugins = [*base["plugins"], {"type": f"{tmp_path}/b.py:B", "name": "for-b"}]
        file.write_text(yaml.safe_dump({"plugins": plugins, "schedulingProfiles": [profile], "transports": transports}))

    more = [{"pluginRef": "for-b", "weight": 2}, {"pluginRef": "max-score-picker"}]
    (tmp_path / "b.py").write_text(
        "class B:\n"
        "    def score(self, request, candidates):\n"
        "        return [float(each.name == 'b') for each in candidates]\n"
    )
    write(3)
    endpoints = [endpoint("a", world.a.port), endpoint("b", world.b.port)]
    text = {"pool": {"endpoints": endpoints}, "transports": {"http": {}}}
    async with serving(text, "--envoy", "-c", str(file)) as served:
        envoy = envoy_of(served.process)
        assert await served_by(world, served) == f"127.0.0.1:{world.a.port}"
        write(1)
        served.process.process.send_signal(signal.SIGHUP)
        await served.process.says("configuration reloaded.*applied")
        assert await served_by(world, served) == f"127.0.0.1:{world.b.port}"
        for change in ({"port": served.port}, {"retries": 5}, {"timeouts": {"connect": "3s"}}):
            count = len(served.process.lines)
            write(3, **change)
            served.process.process.send_signal(signal.SIGHUP)
            await until(
                lambda count=count: any("configuration reload failed" in line for line in served.process.lines[count:])
            )
            (told,) = [line for line in served.process.lines[count:] if "configuration reload failed" in line]
            assert f"needs restart: transports.http.{next(iter(change))}" in told
        assert await served_by(world, served) == f"127.0.0.1:{world.b.port}"
        assert envoy_of(served.process) == envoy
        served.process.process.send_signal(signal.SIGTERM)
        assert await served.process.ends() == 0
