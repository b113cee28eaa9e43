"""Requests that are forwarded without knowing their API."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.domain.request import InferenceRequest
from app.parsing.anything import without_body
from plugins.parsers.passthrough import PassthroughParser
from tests.unit.parsing.given import raw_of


def parse(body: Any, **params: Any) -> InferenceRequest:
    return PassthroughParser(PassthroughParser.Params(**params)).parse(raw_of("/v1/rerank", body))


READABLE = b'{"model": "demo", "stream": true, "messages": [{"content": "hello"}]}'


def test_a_request_keeps_its_id_path_headers_and_size() -> None:
    request = parse(READABLE)
    assert (request.id, request.path, request.method, request.headers) == ("r1", "/v1/rerank", "POST", {"x-a": "1"})
    assert (request.prompts, request.size, request.max_output_tokens) == ((), len(READABLE), None)


@pytest.mark.parametrize(
    ("body", "model", "streaming"),
    [
        pytest.param(READABLE, "demo", True, id="model and stream"),
        pytest.param(b' \r\n\t{"model": "demo"}', "demo", False, id="blanks before"),
        pytest.param(b'{"stream": true}', "", True, id="stream alone"),
        pytest.param(b'{"model": "", "stream": 1}', "", False, id="empty model and a number for stream"),
        pytest.param(b'{"model": null, "stream": "true"}', "", False, id="null and text"),
        pytest.param(b'{"model": ["demo"]}', "", False, id="model as a list"),
        pytest.param(b'{"query": {"model": "demo"}}', "", False, id="model further down"),
        pytest.param(b'{"model": "demo"} more', "", False, id="something after it"),
        pytest.param(b'{"model": "demo", "x": NaN}', "", False, id="not a number"),
        pytest.param(b'{"model": "\\ud800"}', "", False, id="lone surrogate"),
        pytest.param(b"{" * 5000, "", False, id="braces"),
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, "", False, id="too deep"),
        pytest.param(b'["demo"]', "", False, id="list"),
        pytest.param(b'"demo"', "", False, id="text"),
        pytest.param(b"   ", "", False, id="blanks"),
        pytest.param(b"", "", False, id="nothing"),
        pytest.param(b"model=demo", "", False, id="a form"),
        pytest.param(b"\x89PNG\r\n\x1a\n", "", False, id="an image"),
        pytest.param(b"\0\0\0\0\x05hello", "", False, id="a gRPC frame"),
    ],
)
def test_model_and_streaming_are_read_if_possible(body: bytes, model: str, streaming: bool) -> None:
    request = parse(body)
    assert (request.model, request.streaming, request.prompts) == (model, streaming, ())


def test_without_read_model_the_body_is_not_read() -> None:
    request = parse(READABLE, read_model=False)
    assert (request.model, request.streaming, request.size) == ("", False, len(READABLE))


@pytest.mark.parametrize("values", [{"readModel": "yes"}, {"readModel": None}, {"model": True}])
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PassthroughParser.Params.model_validate(values)


@pytest.mark.parametrize(
    ("path", "model"),
    [
        pytest.param("/v1/models/demo", "demo", id="name"),
        pytest.param("/v1/models/org/demo", "org/demo", id="name with a slash"),
        pytest.param("/v1/models/org%2Fdemo%20x", "org/demo x", id="escapes"),
        pytest.param("/v1/models/", "", id="no name"),
        pytest.param("/v1/models", "", id="the list"),
        pytest.param("/v2/v1/models/demo", "", id="another path"),
        pytest.param("", "", id="no path"),
    ],
)
def test_the_path_of_a_request_without_a_body_may_name_the_model(path: str, model: str) -> None:
    request = without_body(raw_of(path, b"not JSON", "GET"))
    assert (request.model, request.method, request.prompts, request.size) == (model, "GET", (), 8)
