"""Which models an endpoint lists."""

from __future__ import annotations

from ssl import SSLContext

import orjson
import pytest

from app.fleet.models import ModelLists
from app.transports.http.client import BufferedResponse
from pointsman.testing import make_endpoint

LIST = {"object": "list", "data": [{"id": "small", "max_model_len": 4096}, {"id": "large"}]}


class FakeHttp:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, answer: BufferedResponse | OSError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, float]] = []

    async def get(self, url: str, *, timeout: float, tls: SSLContext | bool = True) -> BufferedResponse:  # noqa: ASYNC109
        self.asked.append((url, timeout))
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


def lists(body: bytes, status: int = 200) -> ModelLists:
    return ModelLists(FakeHttp(BufferedResponse(status, body)))


async def test_the_names_are_the_ids_of_the_list() -> None:
    assert await lists(orjson.dumps(LIST)).names(make_endpoint(), 1) == frozenset({"small", "large"})


async def test_models_are_given_as_the_endpoint_describes_them() -> None:
    assert await lists(orjson.dumps(LIST)).cards(make_endpoint(), 1) == LIST["data"]


async def test_an_empty_list_is_known() -> None:
    assert await lists(b'{"data": []}').names(make_endpoint(), 1) == frozenset()


async def test_the_list_is_where_requests_go() -> None:
    http = FakeHttp(BufferedResponse(200, b""))
    await ModelLists(http).names(make_endpoint(address="::1", port=81), 0.5)
    assert http.asked == [("http://[::1]:81/v1/models", 0.5)]


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
async def test_an_endpoint_without_a_list_does_not_say(status: int, body: bytes) -> None:
    assert await lists(body, status).names(make_endpoint(), 1) is None


async def test_what_is_no_model_is_left_out() -> None:
    assert await lists(b'{"data": [1, null, {}, {"id": 5}, {"id": "small"}]}').names(make_endpoint(), 1) == frozenset(
        {"small"}
    )


async def test_an_endpoint_that_does_not_answer_is_an_os_error() -> None:
    with pytest.raises(TimeoutError):
        await ModelLists(FakeHttp(TimeoutError())).names(make_endpoint(), 1)
