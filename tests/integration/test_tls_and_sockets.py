"""TLS on both sides, and Unix sockets."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from app.settings.layers import Sources
from containers.application import Application, check, load
from tests.support.running import Running, running, until

TLS = Path(__file__).parents[1] / "data" / "tls"
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}


def trusting(*, client: bool = False) -> ssl.SSLContext:
    """A client that trusts the tests' authority, with a certificate of its own if wanted."""
    context = ssl.create_default_context(cafile=str(TLS / "ca.pem"))
    if client:
        context.load_cert_chain(TLS / "client.pem", TLS / "client.key")
    return context


def serving(name: str = "server", *, clients: bool = False) -> ssl.SSLContext:
    """An engine's side of TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / f"{name}.pem", TLS / f"{name}.key")
    if clients:
        context.load_verify_locations(TLS / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def engine(*, tls: ssl.SSLContext | None = None, socket: Path | None = None) -> AsyncIterator[int]:
    """A model server over TLS or a Unix socket; gives its port."""

    async def stream(_: web.Request) -> web.StreamResponse:
        return web.Response(text="hello " * 30_000, headers={"x-host": _.headers["host"]})

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "demo"}]})

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            text="vllm:num_requests_waiting 3\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.5\n"
        )

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_get("/metrics", metrics)
    app.router.add_post("/v1/chat/completions", stream)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.UnixSite(runner, str(socket)) if socket else web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield 0 if socket else runner.addresses[0][1]
    finally:
        await runner.cleanup()


def layer(tmp_path: Path, text: str) -> str:
    """A file with that text."""
    file = tmp_path / "layer.yaml"
    file.write_text(text)
    return str(file)


async def chat(app: Running, url: str, tls: ssl.SSLContext | None = None) -> tuple[int, str, str]:
    async with app.client.post(f"{url}/v1/chat/completions", json=CHAT, ssl=tls or True) as answer:
        return answer.status, await answer.text(), answer.headers.get("x-host", "")


def https(app: Running) -> str:
    return f"https://127.0.0.1:{app.port}"


OURS = f"transports: {{http: {{tls: {{certFile: '{TLS}/server.pem', keyFile: '{TLS}/server.key'}}}}}}\n"


async def test_clients_are_served_over_tls(tmp_path: Path) -> None:
    async with engine() as port, running(layer(tmp_path, OURS), ports=[port]) as app:
        assert (await chat(app, https(app), trusting()))[:2] == (200, "hello " * 30_000)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await chat(app, https(app))


async def test_only_clients_with_a_certificate_are_served_where_that_is_asked_for(tmp_path: Path) -> None:
    text = OURS.replace("keyFile", f"clientCaFile: '{TLS}/ca.pem', keyFile")
    async with engine() as port, running(layer(tmp_path, text), ports=[port]) as app:
        assert (await chat(app, https(app), trusting(client=True)))[0] == 200
        with pytest.raises(aiohttp.ClientError):
            await chat(app, https(app), trusting())


async def test_a_renewed_certificate_is_taken_over_by_a_reload(tmp_path: Path) -> None:
    for kind in ("pem", "key"):
        shutil.copy(TLS / f"server.{kind}", tmp_path / f"mine.{kind}")
    text = f"transports: {{http: {{tls: {{certFile: '{tmp_path}/mine.pem', keyFile: '{tmp_path}/mine.key'}}}}}}\n"
    file = layer(tmp_path, text)
    async with engine() as port, running(file, ports=[port]) as app:
        assert await shown(app) == "server"
        for kind in ("pem", "key"):
            shutil.copy(TLS / f"renewed.{kind}", tmp_path / f"mine.{kind}")
        outcome = await app.process.reloader().reload()
        assert (outcome.done, await shown(app)) == (True, "renewed")
        (tmp_path / "mine.pem").write_text("nothing")
        outcome = await app.process.reloader().reload()
        assert (outcome.done, "mine.pem" in str(outcome), await shown(app)) == (False, True, "renewed")


async def shown(app: Running) -> str:
    """The name in the certificate that a new connection is met with."""
    port = app.port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
    ((_, name),), *_ = writer.get_extra_info("peercert")["subject"]
    writer.close()
    return name


async def test_tls_is_switched_on_in_a_running_process(tmp_path: Path) -> None:
    file = Path(layer(tmp_path, "{}\n"))
    async with engine() as port, running(str(file), ports=[port]) as app:
        file.write_text(OURS)
        result = await app.process.reloader().reload()
        assert (result.done, await shown(app) != "") == (True, True)


@pytest.mark.parametrize(
    ("tls", "status"),
    [
        pytest.param(f"{{caFile: '{TLS}/ca.pem'}}", 200, id="trusted"),
        pytest.param("{insecureSkipVerify: true}", 200, id="not verified"),
        pytest.param("{}", 503, id="not trusted"),
    ],
)
async def test_an_endpoint_is_spoken_to_over_tls(tmp_path: Path, tls: str, status: int) -> None:
    async with engine(tls=serving()) as port:
        text = f"pool: {{tls: {tls}, endpoints: [{{name: s, address: 127.0.0.1, port: {port}, scheme: https}}]}}\n"
        async with running(layer(tmp_path, text), sets=["transports.http.retries=0"]) as app:
            assert (await chat(app, app.url))[0] == status


async def test_an_endpoint_is_shown_our_certificate(tmp_path: Path) -> None:
    files = f"caFile: '{TLS}/ca.pem', certFile: '{TLS}/client.pem', keyFile: '{TLS}/client.key'"
    async with engine(tls=serving(clients=True)) as port:
        text = (
            f"pool: {{tls: {{{files}}}, endpoints: [{{name: s, address: 127.0.0.1, port: {port}, scheme: https}}]}}\n"
        )
        async with running(layer(tmp_path, text)) as app:
            assert (await chat(app, app.url))[0] == 200
            await until(lambda: app.generation.pool().statuses()[0].models == {"demo"})


async def test_an_endpoint_on_a_unix_socket_is_scraped_listed_and_served(tmp_path: Path) -> None:
    socket = tmp_path / "engine.sock"
    text = f"pool: {{endpoints: [{{name: s, address: 'unix:{socket}'}}], scrape: {{interval: 50ms}}}}\n"
    async with engine(socket=socket), running(layer(tmp_path, text)) as app:
        assert await chat(app, app.url) == (200, "hello " * 30_000, "localhost")
        await until(lambda: app.generation.pool().statuses()[0].metrics)
        assert app.generation.pool().statuses()[0].metrics.waiting == 3
        async with app.client.get(f"{app.url}/v1/models") as answer:
            assert [card["id"] for card in (await answer.json())["data"]] == ["demo"]


async def test_the_router_listens_on_a_unix_socket_and_leaves_none_behind(tmp_path: Path) -> None:
    socket = tmp_path / "router.sock"
    socket.touch()
    socket.unlink()
    text = f"transports: {{http: {{bind: 'unix:{socket}'}}}}\n"
    async with engine() as port:
        endpoints = f"pool: {{endpoints: [{{name: e, address: 127.0.0.1, port: {port}}}]}}\n"
        sources = Sources(("builtin:default",), text + endpoints, {}, ["transports.admin.port=0"])
        runner = Application(load(sources)).runner()
        await runner.start()
        try:
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as client:
                async with client.post("http://any/v1/chat/completions", json=CHAT) as answer:
                    assert (answer.status, await answer.text()) == (200, "hello " * 30_000)
        finally:
            await runner.stop()
    assert not socket.exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("transports: {http: {tls: {certFile: a.pem}}}", "certFile and keyFile go together", id="no key"),
        pytest.param(
            "transports: {http: {tls: {clientCaFile: a.pem}}}", "clientCaFile needs certFile", id="only clients'"
        ),
        pytest.param("pool: {tls: {keyFile: a.pem}}", "certFile and keyFile go together", id="no certificate"),
        pytest.param(
            "pool: {endpoints: [{name: a, address: 'unix:engine.sock'}]}", "whole path of a Unix socket", id="relative"
        ),
        pytest.param(
            "transports: {http: {tls: {certFile: /none.pem, keyFile: /none.key}}}", "/none.pem", id="no such file"
        ),
        pytest.param("pool: {tls: {caFile: /none.pem}}", "/none.pem", id="no authorities"),
        pytest.param(f"pool: {{tls: {{caFile: '{TLS}/README.md'}}}}", "not a certificate in PEM", id="no PEM"),
        pytest.param(
            f"transports: {{http: {{tls: {{certFile: '{TLS}/server.pem', keyFile: '{TLS}/client.key'}}}}}}",
            "not a certificate and its key in PEM",
            id="another's key",
        ),
    ],
)
def test_what_can_not_work_is_told_by_check(text: str, told: str) -> None:
    from app.settings.errors import ConfigurationError  # noqa: PLC0415

    with pytest.raises(ConfigurationError) as caught:
        check(Sources(("builtin:default",), text, {}, ()))
    assert told in str(caught.value)
    assert "missing" not in str(caught.value)
