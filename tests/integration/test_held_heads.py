"""Event streams whose engine sends the head at accept: it is held until the first bytes, so a failure can be retried."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from app.simulation.engine import EngineOptions
from app.simulation.server import ServerOptions, SimulatedServer
from tests.integration.test_http_connections import (
    Engine,
    Message,
    Talk,
    chunks,
    client_of,
    counted,
    echo,
    engine_of,
    get,
    ok,
    post,
    read_body,
)
from tests.support.reloads import endpoints, reloadable
from tests.support.running import Running, running, until

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
EVENTS = [b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n', b'data: {"choices": [{"delta": {}}]}\n\n']
DONE = b"data: [DONE]\n\n"
WHOLE = b"".join(EVENTS) + DONE
SERVED = "x-gateway-destination-endpoint-served"


def reset(writer: asyncio.StreamWriter) -> None:
    """Resets the connection."""
    with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def dying(*, head: bytes = HEAD, then: bytes = b"", how: str = "closes") -> Talk:
    """Sends the head, a moment later `then`, and ends as `how` says."""

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        writer.write(head)
        await asyncio.sleep(0.02)
        writer.write(then)
        if how == "resets":
            reset(writer)
        elif how == "closes":
            writer.close()
        elif how == "hangs":
            await asyncio.Event().wait()

    return talk


async def streams(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Streams `WHOLE`."""
    await read_body(reader, message)
    writer.write(HEAD)
    await asyncio.sleep(0)
    writer.write(chunks(*EVENTS, DONE))


class Steps:
    """An engine that sends the parts of a response one by one, when the test lets it; to other paths it echoes."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts
        self._allowed = asyncio.Semaphore(0)
        self.requests = 0

    def goes_on(self, count: int = 1) -> None:
        for _ in range(count):
            self._allowed.release()

    async def __call__(self, message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if "/chat/" not in message.path:
            await echo(message, reader, writer)
            return
        await read_body(reader, message)
        for number, part in enumerate(self._parts):
            if number:
                await self._allowed.acquire()
            writer.write(part)
            await writer.drain()
            self.requests += not number


@asynccontextmanager
async def two_engines(bad: Talk, *sets: str) -> AsyncIterator[tuple[Engine, Engine, Running]]:
    """A router over an engine that fails and one that streams."""
    async with engine_of(bad) as first, engine_of(streams) as second:
        async with running(ports=[first.port, second.port], sets=sets) as app:
            yield first, second, app


async def nothing_arrives(reader: asyncio.StreamReader, within: float = 0.1) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(within):
            await reader.read(1)


# -- failures


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(dying(), id="closes"),
        pytest.param(dying(how="resets"), id="resets"),
        pytest.param(dying(then=b"0\r\n\r\n", how="stays"), id="ends without an event"),
        pytest.param(dying(head=UNTIL_CLOSE), id="closes without a length"),
        pytest.param(dying(head=UNTIL_CLOSE, how="resets"), id="resets without a length"),
        pytest.param(dying(head=HEAD.replace(b"transfer-encoding: chunked", b"content-length: 9")), id="closes before its length"),
        pytest.param(dying(then=b"5\r\n"), id="closes before a chunk"),
        pytest.param(dying(then=b"chunk\r\n", how="hangs"), id="sends no chunk"),
        pytest.param(dying(how="hangs"), id="hangs"),
    ],
)  # fmt: skip
async def test_an_engine_that_fails_after_its_head_is_retried_elsewhere(bad: Talk) -> None:
    async with (
        two_engines(bad, "transports.http.timeouts.response=300ms") as (first, second, app),
        client_of(app) as client,
    ):
        for _ in range(30):  # either one is as likely
            answer = await client.ask(post())
            assert (answer.status, answer.body) == (200, WHOLE)
            assert answer.headers[SERVED] == f"127.0.0.1:{second.port}"
            if first.seen:
                break
        assert await counted(app, 'pointsman_attempts_ended_total{ending="upstream-failed"}') == 1
        assert (await client.ask(post())).body == WHOLE
        assert app.process.in_flight().total == 0


@pytest.mark.parametrize(
    ("bad", "status", "said"),
    [
        (dying(), 503, b"closed the connection before the first event"),
        (dying(then=b"0\r\n\r\n", how="stays"), 503, b"ended its event stream without an event"),
        (dying(how="hangs"), 504, b"no event within 0.2 s, though its response head arrived"),
    ],
    ids=["closes", "ends without an event", "hangs"],
)
async def test_a_client_is_told_why_if_no_other_engine_is_left(bad: Talk, status: int, said: bytes) -> None:
    sets = ["transports.http.timeouts.response=200ms", "transports.http.timeouts.idle=10ms"]
    async with engine_of(bad) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        answer = await client.ask(post())
        assert (answer.status, said in answer.body) == (status, True)
        assert SERVED not in answer.headers
        assert (await client.ask(get("/v1/models"))).status == 503


async def test_an_engine_that_fails_after_an_event_is_not_retried() -> None:
    bad = dying(then=b"%x\r\n%b\r\n" % (len(EVENTS[0]), EVENTS[0]))
    async with engine_of(bad) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post())
        with suppress(asyncio.IncompleteReadError):
            answer = await client.answer()
            pytest.fail(f"it ended as if it were complete: {answer}")
        assert len(engine.seen) == 1
        await until(lambda: app.process.in_flight().total == 0)


async def test_an_error_event_passes_through() -> None:
    error = b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n'
    talk = Steps(HEAD + chunks(error, DONE))
    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        answer = await client.ask(post())
        assert (answer.status, answer.body, len(engine.seen)) == (200, error + DONE, 1)
        assert await counted(app, "llm_d_epp_request_ttft_seconds_count") == 0
        assert await counted(app, "pointsman_response_head_seconds_count") == 1


# -- what is held, and for how long


@pytest.mark.parametrize("first", [EVENTS[0], b": ping\n\n", b":"], ids=["event", "comment", "part of a comment"])
async def test_the_head_is_held_until_the_first_bytes(first: bytes) -> None:
    steps = Steps(HEAD, b"%x\r\n%b\r\n" % (len(first), first), chunks(EVENTS[1]))
    async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post())
        await until(lambda: steps.requests)
        await nothing_arrives(client.reader)
        steps.goes_on()
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert await client.reader.readuntil(first + b"\r\n")
        steps.goes_on()
        assert (await client.reader.readuntil(b"0\r\n\r\n")).endswith(EVENTS[1] + b"\r\n0\r\n\r\n")
        assert (await client.ask(get("/next"))).body == b"/next"
        assert len(engine.connections) == 1


async def test_a_switch_has_the_head_sent_at_once() -> None:
    steps = Steps(HEAD, chunks(*EVENTS))
    sets = ["transports.http.holdStreamHead=false"]
    async with engine_of(steps) as engine, running(ports=[engine.port], sets=sets) as app, client_of(app) as client:
        client.send(post())
        assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        steps.goes_on()
        assert (await client.reader.readuntil(b"0\r\n\r\n")).count(b"data: ") == 2


async def test_without_it_a_failure_after_the_head_breaks_the_response() -> None:
    async with two_engines(dying(), "transports.http.holdStreamHead=false") as (first, _, app):
        for _ in range(30):
            async with client_of(app) as client:
                client.send(post())
                with suppress(asyncio.IncompleteReadError):
                    assert (await client.answer()).body == WHOLE
                    continue
                break
        assert len(first.seen) == 1


NO_BODY = HEAD.replace(b"transfer-encoding: chunked", b"content-length: 0")


@pytest.mark.parametrize(
    ("head", "status", "with_length"),
    [
        pytest.param(NO_BODY, 200, True, id="no length"),
        pytest.param(NO_BODY.replace(b"200 OK", b"204 No Content"), 204, False, id="204"),
        pytest.param(NO_BODY.replace(b"200 OK", b"304 Not Modified"), 304, True, id="304"),
    ],
)
async def test_a_stream_that_has_no_body_is_complete(head: bytes, status: int, with_length: bool) -> None:
    steps = Steps(head)
    async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        for _ in range(2):
            answer = await client.ask(post())
            assert (answer.status, answer.body, "content-length" in answer.headers) == (status, b"", with_length)
        assert (await client.ask(get("/next"))).body == b"/next"
        assert len(engine.connections) == 1


async def test_a_response_to_head_is_not_held() -> None:
    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD if message.start.startswith("HEAD") else ok(b"next"))

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(get().replace(b"GET", b"HEAD"), get("/next"))
        assert (await client.answer(with_body=False)).headers["content-type"] == "text/event-stream"
        assert ((await client.answer()).body, len(engine.connections)) == (b"next", 1)


async def test_other_responses_are_not_held() -> None:
    json = HEAD.replace(b"text/event-stream", b"application/json")
    error = HEAD.replace(b"200 OK", b"500 Oh No")
    for head in (json, error):
        steps = Steps(head, chunks(b"{}"))
        async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
            client.send(post())
            await client.reader.readuntil(b"\r\n\r\n")
            steps.goes_on()
            assert b"{}" in await client.reader.readuntil(b"0\r\n\r\n")


# -- meanwhile


async def test_requests_behind_a_held_one_are_served_in_order() -> None:
    steps = Steps(HEAD, chunks(*EVENTS))
    async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post(), get("/second"), post(), get("/fourth"))
        await until(lambda: steps.requests)
        await nothing_arrives(client.reader)
        steps.goes_on(2)
        assert [(await client.answer()).body for _ in range(4)] == [
            b"".join(EVENTS), b"/second", b"".join(EVENTS), b"/fourth"
        ]  # fmt: skip


async def test_a_client_that_leaves_while_its_head_is_held_ends_the_upstream_request() -> None:
    held = asyncio.Event()

    async def talk(message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_body(reader, message)
        writer.write(HEAD)
        held.set()
        await reader.readexactly(1)  # raises when the connection ends

    async with engine_of(talk) as engine, running(ports=[engine.port]) as app:
        async with client_of(app) as client:
            client.send(post())
            await held.wait()
            await nothing_arrives(client.reader)
            client.leave()
            await until(lambda: engine.ended == 1, within=2)
        assert (app.process.in_flight().total, len(engine.seen)) == (0, 1)
        assert await counted(app, 'pointsman_attempts_ended_total{ending="client-left"}') == 1


async def test_a_client_of_http_1_0_gets_the_stream_too() -> None:
    steps = Steps(HEAD, chunks(*EVENTS))
    async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post(version="1.0"))
        await until(lambda: steps.requests)
        steps.goes_on()
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"".join(EVENTS), "close")


async def test_a_reload_leaves_a_held_response_alone(tmp_path: Path) -> None:
    steps = Steps(HEAD, chunks(*EVENTS))
    async with engine_of(steps) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool) as app, client_of(app) as client:
            client.send(post())
            await until(lambda: steps.requests)
            await app.takes_over(pool + "transports: {http: {holdStreamHead: false}}\n")
            await nothing_arrives(client.reader)
            steps.goes_on()
            assert (await client.answer()).body == b"".join(EVENTS)
            client.send(post())
            await client.reader.readuntil(b"\r\n\r\n")  # the new configuration sends it at once
            steps.goes_on()
            await client.reader.readuntil(b"0\r\n\r\n")


async def test_a_held_response_says_that_its_connection_ends_when_the_server_stops() -> None:
    steps = Steps(HEAD, chunks(*EVENTS))
    async with engine_of(steps) as engine, running(ports=[engine.port]) as app, client_of(app) as client:
        client.send(post())
        await until(lambda: steps.requests)
        drain = asyncio.create_task(app.drain(10.0))
        await nothing_arrives(client.reader)
        steps.goes_on()
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"".join(EVENTS), "close")
        await drain


# -- with simulated engines


@asynccontextmanager
async def simulated(**options: Any) -> AsyncIterator[int]:
    """A simulated server that takes 0.3 s for the prompt of `app.chat("x" * 400)`; its port."""
    engine = EngineOptions(prefill_tokens_per_second=300.0, decode_tokens_per_second=1000.0)
    server = SimulatedServer(ServerOptions(engine=engine, **options))
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop()


@pytest.mark.parametrize("holds", ["true", "false"])
@pytest.mark.parametrize("early", [False, True])
async def test_the_first_token_is_timed_by_content_wherever_the_head_is(early: bool, holds: str) -> None:
    async with simulated(early_heads=early) as port:
        async with running(ports=[port], sets=[f"transports.http.holdStreamHead={holds}"]) as app:
            async with app.chat("x" * 400, stream=True, max_tokens=5) as response:
                text = await response.text()
            assert (response.status, text.count("data: ")) == (200, 7)
            labels = '{model_name="demo",streaming="true"}'
            first_token = await counted(app, f"llm_d_epp_request_ttft_seconds_sum{labels}")
            head = await counted(app, "pointsman_response_head_seconds_sum")
            assert first_token > 0.3
            assert (head < 0.2) is early
            assert await counted(app, "pointsman_ttft_from_head_total") == 0
            assert await counted(app, "llm_d_epp_request_streaming_tpot_seconds_count") == 1


async def test_a_response_that_is_no_stream_is_timed_by_its_first_byte() -> None:
    async with simulated() as port, running(ports=[port]) as app:
        async with app.chat("x" * 400, max_tokens=5) as response:
            await response.read()
        labels = '{model_name="demo",streaming="false"}'
        assert await counted(app, f"llm_d_epp_request_ttft_seconds_sum{labels}") > 0.3
        assert await counted(app, "llm_d_epp_request_streaming_tpot_seconds_count") == 0
