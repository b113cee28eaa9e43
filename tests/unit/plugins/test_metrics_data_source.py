"""`metrics-data-source` with a small server on loopback."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from app.extension import Endpoint, ScrapeError
from app.transports.http.client import PooledHttpClient
from plugins.sources.metrics_data_source import MetricsDataSource
from pointsman.testing import make_endpoint
from tests.unit.plugins.given import params_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.transports.http.client import BufferedResponse

PAGE = "vllm:num_requests_waiting 3\n"


async def page(_: web.Request) -> web.Response:
    return web.Response(text=PAGE)


async def failing(_: web.Request) -> web.Response:
    return web.Response(status=500, text="oh no")


async def html(_: web.Request) -> web.Response:
    return web.Response(text="<html><body>Not here</body></html>\n", content_type="text/html")


async def moved(_: web.Request) -> web.Response:
    return web.Response(status=302, headers={"location": "/metrics"})


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-length": "1000"})
    await response.prepare(request)
    await response.write(PAGE.encode())
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.fixture
async def server() -> AsyncIterator[Endpoint]:
    """An endpoint with valid and invalid pages."""
    app = web.Application()
    for path, handler in {
        "/metrics": page, "/failing": failing, "/html": html, "/moved": moved, "/cut-off": cut_off
    }.items():  # fmt: skip
        app.router.add_get(path, handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield make_endpoint("served", port=runner.addresses[0][1])
    await runner.cleanup()


@pytest.fixture
async def http() -> AsyncIterator[PooledHttpClient]:
    """A client that is closed after the test."""
    client = PooledHttpClient()
    yield client
    await client.close()


class RecordingClient:
    """An `HttpClient` that records requests and fails."""

    def __init__(self, error: OSError | None = None) -> None:
        self.urls: list[str] = []
        self.tls: list[ssl.SSLContext | bool] = []
        self._error = error or TimeoutError()

    async def get(self, url: str, *, timeout: float, tls: ssl.SSLContext | bool = True) -> BufferedResponse:  # noqa: ASYNC109
        self.urls.append(url)
        self.tls.append(tls)
        raise self._error


def source(http: Any, **params: Any) -> MetricsDataSource:
    return MetricsDataSource(params_of(MetricsDataSource.Params, params), http)


async def fetched_with(endpoint: Endpoint, **params: Any) -> RecordingClient:
    client = RecordingClient()
    with pytest.raises(ScrapeError):
        await source(client, **params).fetch(endpoint)
    return client


async def test_a_page_is_fetched(server: Endpoint, http: PooledHttpClient) -> None:
    fetched = await source(http).fetch(server)
    assert fetched.samples(["vllm:num_requests_waiting"])["vllm:num_requests_waiting"][0].value == 3


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("/missing", "404", id="404"),
        pytest.param("/failing", "500", id="500"),
        pytest.param("/html", "not a metrics page", id="HTML"),
        pytest.param("/moved", "302", id="redirect"),
        pytest.param("/cut-off", "cut-off", id="connection closed"),
    ],
)
async def test_another_response_is_an_error_of_a_reachable_server(
    path: str, reason: str, server: Endpoint, http: PooledHttpClient
) -> None:
    with pytest.raises(ScrapeError, match=reason) as caught:
        await source(http, path=path).fetch(server)
    assert not caught.value.unreachable


async def test_a_refused_connection_is_unreachable(http: PooledHttpClient) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ScrapeError) as caught:
            await source(http).fetch(make_endpoint(port=taken.getsockname()[1]))
    assert caught.value.unreachable


async def test_a_timeout_is_an_error_with_its_cause() -> None:
    with pytest.raises(ScrapeError, match="TimeoutError") as caught:
        await source(RecordingClient()).fetch(make_endpoint())
    assert not caught.value.unreachable


async def test_the_configured_port_is_used(server: Endpoint, http: PooledHttpClient) -> None:
    elsewhere = Endpoint("elsewhere", "127.0.0.1", 1, {}, 2)
    fetched = await source(http, port=server.port).fetch(elsewhere)
    assert fetched.mentions("vllm:")


@pytest.mark.parametrize(
    ("endpoint", "params", "url"),
    [
        pytest.param(Endpoint("e", "10.0.0.1", 80), {}, "http://10.0.0.1:80/metrics", id="the endpoint's port"),
        pytest.param(Endpoint("e", "10.0.0.1", 80, {}, 90), {}, "http://10.0.0.1:90/metrics", id="its metrics port"),
        pytest.param(
            Endpoint("e", "10.0.0.1", 80, {}, 90), {"port": 70}, "http://10.0.0.1:70/metrics", id="the configured port"
        ),
        pytest.param(Endpoint("e", "::1", 80), {}, "http://[::1]:80/metrics", id="IPv6"),
        pytest.param(
            Endpoint("e", "::1", 80), {"port": 70}, "http://[::1]:70/metrics", id="IPv6 with the configured port"
        ),
        pytest.param(Endpoint("e", "gpu-1", 80), {"path": "/stats"}, "http://gpu-1:80/stats", id="another path"),
        pytest.param(Endpoint("e", "gpu-1", 80), {"scheme": "https"}, "https://gpu-1:80/metrics", id="https"),
    ],
)
async def test_the_url_depends_on_the_endpoint_and_the_parameters(
    endpoint: Endpoint, params: dict[str, Any], url: str
) -> None:
    assert (await fetched_with(endpoint, **params)).urls == [url]


@pytest.mark.parametrize(
    ("params", "verifies"),
    [
        pytest.param({"scheme": "https"}, False, id="any certificate"),
        pytest.param({"scheme": "https", "insecureSkipVerify": False}, True, id="verified"),
    ],
)
async def test_certificates_are_verified_only_if_configured(params: dict[str, Any], verifies: bool) -> None:
    assert (await fetched_with(make_endpoint(), **params)).tls == [verifies]


@pytest.mark.parametrize(
    ("skip", "mode"),
    [
        pytest.param(True, ssl.CERT_NONE, id="any certificate"),
        pytest.param(False, ssl.CERT_REQUIRED, id="verified"),
    ],
)
async def test_a_configured_certificate_authority_is_trusted(
    skip: bool, mode: ssl.VerifyMode, monkeypatch: Any
) -> None:
    loaded: list[str | None] = []
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile=None: loaded.append(cafile) or make())
    client = await fetched_with(make_endpoint(), scheme="https", insecureSkipVerify=skip, caCertPath="/etc/ca.pem")
    (context,) = client.tls
    assert (loaded, isinstance(context, ssl.SSLContext) and context.verify_mode) == (["/etc/ca.pem"], mode)


def test_a_missing_certificate_file_is_an_error_at_construction() -> None:
    with pytest.raises(OSError):
        source(RecordingClient(), scheme="https", clientCertPath="/no/cert.pem", clientKeyPath="/no/key.pem")


def test_certificate_files_are_not_read_with_http() -> None:
    assert source(RecordingClient(), caCertPath="/no/ca.pem").interval is None


@pytest.mark.parametrize(
    ("params", "interval"),
    [
        pytest.param({}, None, id="not given"),
        pytest.param({"interval": "0"}, None, id="zero"),
        pytest.param({"interval": "250ms"}, 0.25, id="given"),
    ],
)
def test_the_interval_is_the_configured_one(params: dict[str, Any], interval: float | None) -> None:
    assert source(RecordingClient(), **params).interval == interval


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"scheme": "ftp"}, id="unknown scheme"),
        pytest.param({"scheme": "HTTPS"}, id="scheme in capitals"),
        pytest.param({"path": "metrics"}, id="path without a slash"),
        pytest.param({"path": "/met rics"}, id="path with a space"),
        pytest.param({"port": 0}, id="port zero"),
        pytest.param({"port": 65536}, id="port too high"),
        pytest.param({"port": "9000"}, id="port as text"),
        pytest.param({"clientCertPath": "cert.pem"}, id="certificate without a key"),
        pytest.param({"clientKeyPath": "key.pem"}, id="key without a certificate"),
        pytest.param({"interval": "-1s"}, id="negative interval"),
        pytest.param({"interval": 5}, id="interval without a unit"),
        pytest.param({"insecureSkipVerify": "no"}, id="text for a boolean"),
        pytest.param({"url": "/metrics"}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(MetricsDataSource.Params, values)
