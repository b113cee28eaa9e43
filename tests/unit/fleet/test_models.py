"""Which models an endpoint lists."""

from __future__ import annotations

from ssl import SSLContext, create_default_context
from typing import Any

import orjson
import pytest

from app.domain.endpoint import Endpoint
from app.fleet.models import ModelLists
from app.transports.http.client import BufferedResponse
from pointsman.testing import make_endpoint

LIST = {"object": "list", "data": [{"id": "small", "max_model_len": 4096}, {"id": "large"}]}


class FakeHttp:
    """Returns or raises `response`, and remembers the requests."""

    def __init__(self, response: BufferedResponse | OSError) -> None:
        self.response = response
        self.requests: list[tuple[Any, ...]] = []

    async def get(
        self,
        url: str,
        *,
        timeout: float,  # noqa: ASYNC109
        tls: SSLContext | bool = True,
        socket: str | None = None,
    ) -> BufferedResponse:
        self.requests.append((url, timeout, tls, socket))
        if isinstance(self.response, OSError):
            raise self.response
        return self.response


def lists(body: bytes, status: int = 200) -> ModelLists:
    return ModelLists(FakeHttp(BufferedResponse(status, body)))


async def test_names_are_the_ids_in_the_list() -> None:
    assert await lists(orjson.dumps(LIST)).names(make_endpoint(), 1) == frozenset({"small", "large"})


async def test_cards_are_the_endpoint_s_own_descriptions() -> None:
    assert await lists(orjson.dumps(LIST)).cards(make_endpoint(), 1) == LIST["data"]


async def test_an_empty_list_is_known() -> None:
    assert await lists(b'{"data": []}').names(make_endpoint(), 1) == frozenset()


@pytest.mark.parametrize(
    ("endpoint", "url", "socket"),
    [
        pytest.param(make_endpoint(port=81), "http://127.0.0.1:81/v1/models", None, id="IPv4"),
        pytest.param(make_endpoint(address="::1", port=81), "http://[::1]:81/v1/models", None, id="IPv6"),
        pytest.param(Endpoint("a", "host", 81, tls=True), "https://host:81/v1/models", None, id="HTTPS"),
        pytest.param(
            make_endpoint(address="unix:/run/a", port=0), "http://localhost/v1/models", "/run/a", id="Unix socket"
        ),
    ],
)
async def test_the_list_is_read_where_requests_go(endpoint: Endpoint, url: str, socket: str | None) -> None:
    http, tls = FakeHttp(BufferedResponse(200, b"")), create_default_context()
    await ModelLists(http).names(endpoint, 0.5)
    await ModelLists(http, tls).names(endpoint, 0.5)
    assert http.requests == [(url, 0.5, True, socket), (url, 0.5, tls, socket)]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(404, orjson.dumps(LIST), id="not found"),
        pytest.param(200, b"", id="empty"),
        pytest.param(200, b"<html>", id="HTML"),
        pytest.param(200, b"[]", id="list"),
        pytest.param(200, b"null", id="null"),
        pytest.param(200, b"{}", id="no data"),
        pytest.param(200, b'{"data": {"id": "small"}}', id="data is no list"),
    ],
)
async def test_without_a_list_the_names_are_unknown(status: int, body: bytes) -> None:
    assert await lists(body, status).names(make_endpoint(), 1) is None


async def test_entries_that_are_no_models_are_left_out() -> None:
    assert await lists(b'{"data": [1, null, {}, {"id": 5}, {"id": "small"}]}').names(make_endpoint(), 1) == frozenset(
        {"small"}
    )


async def test_an_endpoint_that_does_not_respond_is_an_os_error() -> None:
    with pytest.raises(TimeoutError):
        await ModelLists(FakeHttp(TimeoutError())).names(make_endpoint(), 1)
