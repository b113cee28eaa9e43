"""What passes through the router passes unchanged, and as it comes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json

import pytest
from aiohttp import web
from yarl import URL

from tests.support.engines import fake_engine, says
from tests.support.running import running

CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}


async def test_an_answer_comes_back_with_status_body_and_headers() -> None:
    async with fake_engine(says("teapot", status=418, **{"x-own": "1"})) as engine, running(ports=[engine.port]) as app:
        async with app.chat() as answer:
            assert (answer.status, await answer.text(), answer.headers["x-own"]) == (418, "teapot", "1")


async def test_a_body_reaches_the_endpoint_byte_by_byte() -> None:
    numbers = b'"zebra": 1.0, "model":"demo",  "big": 12345678901234567890123'
    body = b"{" + numbers + b', "messages":[{"role":"user","content":"\\ud83d"}]}'
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        async with app.client.post(f"{app.url}/v1/chat/completions", data=body) as answer:
            assert answer.status == 200
        assert engine.seen[-1].body == body


async def test_a_large_body_arrives_whole() -> None:
    content = "x" * 5_000_000
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        sent = json.dumps({"model": "demo", "messages": [{"role": "user", "content": content}]}).encode()
        async with app.client.post(f"{app.url}/v1/chat/completions", data=io.BytesIO(sent)) as answer:
            assert answer.status == 200
        assert hashlib.sha256(engine.seen[-1].body).digest() == hashlib.sha256(sent).digest()


async def test_pieces_of_a_stream_come_when_they_are_sent() -> None:
    go_on = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await go_on.wait()
        await response.write(b"data: 2\n\n")
        return response

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        async with app.chat(stream=True) as got:
            assert await got.content.readany() == b"data: 1\n\n"
            go_on.set()
            assert await got.content.readany() == b"data: 2\n\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/version"),
        ("POST", "/v1/rerank?top_n=3"),
        ("DELETE", "/v1/files/a%20b"),
        ("POST", "/tokenize"),
        ("PUT", "/x/%2F/../y"),
    ],
)
async def test_any_other_path_is_passed_on_as_it_is(method: str, path: str) -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        async with app.client.request(method, URL(app.url + path, encoded=True)) as answer:
            assert answer.status == 200
        assert (engine.seen[-1].method, engine.seen[-1].path) == (method, path)


async def test_connection_headers_and_the_routers_own_do_not_reach_the_endpoint() -> None:
    headers = {
        "connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers", "proxy-authorization": "p",
        "x-prefiller-host-port": "evil:1", "x-gateway-destination-endpoint-subset": "a", "authorization": "Bearer k",
    }  # fmt: skip
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        async with app.client.post(f"{app.url}/v1/chat/completions", json=CHAT, headers=headers) as answer:
            assert answer.status == 200
        got = engine.seen[-1].headers
        assert not {"x-hop", "te", "proxy-authorization", "x-prefiller-host-port"} & set(got)
        assert got["authorization"] == "Bearer k"


async def test_connection_headers_of_the_answer_do_not_reach_the_client() -> None:
    handle = says("x", **{"keep-alive": "timeout=5", "x-hop": "1", "connection": "x-hop"})
    async with fake_engine(handle) as engine, running(ports=[engine.port]) as app, app.chat() as answer:
        assert not {"keep-alive", "x-hop"} & {name.lower() for name in answer.headers}


async def test_every_answer_names_its_request_and_who_served_it() -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        async with app.client.post(
            f"{app.url}/v1/chat/completions", json=CHAT, headers={"x-request-id": "r-1"}
        ) as answer:
            assert answer.headers["x-request-id"] == "r-1"
            assert answer.headers["x-gateway-destination-endpoint-served"] == f"127.0.0.1:{engine.port}"
        assert engine.seen[-1].headers["x-request-id"] == "r-1"


async def test_a_request_without_an_id_gets_one() -> None:
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app, app.chat() as answer:
        assert answer.headers["x-request-id"] == engine.seen[-1].headers["x-request-id"] != ""


async def test_a_compressed_request_is_routed_by_its_model_and_passed_on_compressed() -> None:
    packed = gzip.compress(json.dumps(CHAT).encode())
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        async with app.client.post(f"{app.url}/v1/chat/completions", data=packed, headers=headers) as answer:
            assert answer.status == 200
        assert engine.seen[-1].body == packed
        assert engine.seen[-1].headers["content-encoding"] == "gzip"


async def test_a_compressed_answer_stays_compressed() -> None:
    packed = gzip.compress(b"hello" * 100)

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=packed, headers={"content-encoding": "gzip"})

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app, app.chat() as got:
        assert (await got.read(), got.headers["content-encoding"]) == (packed, "gzip")


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_has_none(status: int) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app, app.chat() as got:
        assert (got.status, await got.read()) == (status, b"")


async def test_head_is_answered_without_a_body_and_with_its_length() -> None:
    async with fake_engine(says("hello")) as engine, running(ports=[engine.port]) as app:
        async with app.client.head(f"{app.url}/version") as answer:
            assert (answer.status, answer.headers["content-length"], await answer.read()) == (200, "5", b"")


async def test_a_redirect_is_the_clients_business() -> None:
    async with fake_engine(says(status=307, location="/elsewhere")) as engine, running(ports=[engine.port]) as app:
        async with app.client.get(f"{app.url}/version", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["location"]) == (307, "/elsewhere")


async def raw(port: int, request: bytes) -> bytes:
    """What comes back for `request` until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await response.write(b"data: 2\n\n")
        return response

    async with fake_engine(answer) as engine, running(ports=[engine.port]) as app:
        body = json.dumps(CHAT).encode()
        head = b"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body)
        got = await raw(app.port, head + body)
        assert got.startswith(b"HTTP/1.0 200 OK\r\n")
        assert got.endswith(b"\r\n\r\ndata: 1\n\ndata: 2\n\n")


async def test_a_target_in_absolute_form_is_taken_without_its_host() -> None:
    async with fake_engine(says("here")) as engine, running(ports=[engine.port]) as app:
        request = b"GET http://elsewhere:1/x%2Fy?z=1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        assert (await raw(app.port, request)).endswith(b"here")
        assert engine.seen[-1].path == "/x%2Fy?z=1"


async def test_requests_in_one_go_are_answered_in_order() -> None:
    async with fake_engine(says("here")) as engine, running(ports=[engine.port]) as app:
        one, last = b"GET /1 HTTP/1.1\r\nhost: a\r\n\r\n", b"GET /2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        assert (await raw(app.port, one + last)).count(b"here") == 2
        assert [seen.path for seen in engine.seen] == ["/1", "/2"]


@pytest.mark.parametrize("name", ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_another_model_that_a_header_asks_for_changes_no_other_byte(name: str, packed: bool) -> None:
    body = b'{ "zebra": 1.0, "model" :"alias",  "messages":[{"role":"user","content":"model \\ud83d"}]}'
    headers = {"content-type": "application/json", name: "demo"}
    if packed:
        headers["content-encoding"] = "gzip"
    async with fake_engine(says()) as engine, running(ports=[engine.port]) as app:
        data = gzip.compress(body) if packed else body
        async with app.client.post(f"{app.url}/v1/chat/completions", data=data, headers=headers) as answer:
            assert answer.status == 200
        got = engine.seen[-1]
        assert got.body == body.replace(b'"alias"', b'"demo"')
        assert got.headers["content-length"] == str(len(got.body))
        assert not {name, "content-encoding"} & {field.lower() for field in got.headers}
