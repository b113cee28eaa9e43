"""A request taken in: read, decompressed, given another model, and told of where it can't be."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import BadRequestError, BodyTooLargeError, PluginError, RoutingError
from app.domain.request import RawRequest
from app.parsing.parsers import Parsers
from app.transports.receiving import LONGEST_REQUEST_ID, ReceivedRequest, path_of, receive, request_id_of
from plugins.parsers.openai import OpenAIParser
from plugins.parsers.passthrough import PassthroughParser
from tests.unit.routing.given import Setup

CHAT = "/v1/chat/completions"
BODY = b'{"model": "demo",  "messages": [{"role": "user", "content": "model"}]}'
OTHER = BODY.replace(b"demo", b"other")
LIMIT = 1000


class Raising:
    """A parser that raises."""

    paths = ("/raises",)

    def parse(self, raw: RawRequest) -> Any:
        raise LookupError("oh")


class ByHeader:
    """A parser that finds the model where no body has it."""

    paths = ("/by-header",)

    def parse(self, raw: RawRequest) -> Any:
        return raw.parsed(model=raw.headers["x-model"])


@pytest.fixture
def setup() -> Setup:
    """A router with parsers."""
    setup = Setup()
    parsers: list[Any] = [OpenAIParser(), Raising(), ByHeader(), PassthroughParser(PassthroughParser.Params())]
    named = [(type(parser).__name__, parser) for parser in parsers]
    setup.router.pipeline = replace(setup.router.pipeline, parsers=Parsers(named))
    return setup


def take(setup: Setup, body: bytes = BODY, *, path: str = CHAT, method: str = "POST", **given: str) -> ReceivedRequest:
    raw = RawRequest("r1", path, body, method, {"x-model": "demo"}, len(body))
    return receive(setup.router, raw, encoding=given.get("encoding", ""), model=given.get("model", ""), limit=LIMIT)


def refusal(setup: Setup, *args: Any, **given: Any) -> RoutingError:
    """Why it was not taken in, which the observers have been told, once."""
    with pytest.raises(RoutingError) as caught:
        take(setup, *args, **given)
    assert setup.diary.refusals == [caught.value]
    return caught.value


def test_a_request_goes_on_as_it_came(setup: Setup) -> None:
    request, body = take(setup)
    assert (request.id, request.path, request.model, request.size, body) == ("r1", CHAT, "demo", len(BODY), None)
    assert (request.headers, setup.entries) == ({"x-model": "demo"}, [])


@pytest.mark.parametrize("encoding", ["gzip", "GZIP ", "x-gzip"])
def test_a_compressed_request_is_read_and_goes_on_as_it_came(setup: Setup, encoding: str) -> None:
    packed = gzip.compress(BODY)
    request, body = take(setup, packed, encoding=encoding)
    assert (request.model, request.size, body) == ("demo", len(packed), None)


def test_a_request_is_given_another_model(setup: Setup) -> None:
    request, body = take(setup, model="other")
    assert (request.model, body, request.size) == ("other", OTHER, len(BODY))
    assert request.prompts == take(setup).request.prompts


def test_a_compressed_request_with_another_model_goes_on_plain(setup: Setup) -> None:
    packed = gzip.compress(BODY)
    request, body = take(setup, packed, encoding="gzip", model="other")
    assert (request.model, body, request.size) == ("other", OTHER, len(packed))


def test_the_same_model_changes_nothing(setup: Setup) -> None:
    assert take(setup, model="demo").body is None


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        ("/v1/conversations", b'{"items": [{"role": "user", "content": "hi"}]}', "POST"),
        ("/elsewhere", b"no JSON", "POST"),
        ("/v1/models", b"", "GET"),
    ],
)
def test_a_request_that_names_no_model_is_given_none(setup: Setup, path: str, body: bytes, method: str) -> None:
    request, changed = take(setup, body, path=path, method=method, model="other")
    assert (request.model, changed, request.method) == ("", None, method)


@pytest.mark.parametrize("body", [b"no JSON", b"{}"])
def test_a_model_that_is_not_in_the_body_stays(setup: Setup, body: bytes) -> None:
    request, changed = take(setup, body, path="/by-header", model="other")
    assert (request.model, changed) == ("demo", None)


def test_a_body_in_an_unknown_encoding_can_not_be_read(setup: Setup) -> None:
    assert isinstance(refusal(setup, encoding="br"), BadRequestError)
    assert take(setup, path="/elsewhere", encoding="br").body is None


@pytest.mark.parametrize(
    ("body", "encoding", "kind"),
    [
        (b"{", "", BadRequestError),
        (BODY, "gzip", BadRequestError),
        (gzip.compress(BODY)[:-9], "gzip", BadRequestError),
        (gzip.compress(b"x" * (LIMIT + 1)), "gzip", BodyTooLargeError),
    ],
    ids=["no JSON", "not gzip", "cut off", "too large"],
)
def test_what_can_not_be_read_is_refused_and_told(
    setup: Setup, body: bytes, encoding: str, kind: type[RoutingError]
) -> None:
    assert type(refusal(setup, body, encoding=encoding)) is kind


def test_a_parser_that_fails_is_told(setup: Setup) -> None:
    assert isinstance(refusal(setup, path="/raises"), PluginError)
    assert [fault.plugin for fault in setup.faults] == ["Raising"]


@settings(max_examples=100, deadline=None)
@given(model=st.text(min_size=1, max_size=10))
def test_any_model_may_be_given(model: str) -> None:
    given_setup = Setup()
    given_setup.router.pipeline = replace(given_setup.router.pipeline, parsers=Parsers([("openai", OpenAIParser())]))
    request, body = take(given_setup, model=model)
    assert (request.model, json.loads(body or BODY)["model"]) == (model, model)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a", "/a"),
        ("/a?b=/c", "/a"),
        ("/a?", "/a"),
        ("?b", ""),
        ("/a%20b%2Fc?d=%20", "/a b/c"),
        ("/a%", "/a%"),
        ("/%C3%A9", "/é"),
        ("/%FF", "/�"),
        ("/a+b", "/a+b"),
        ("", ""),
    ],
)
def test_a_path_is_without_the_query_and_its_escapes_resolved(target: str, path: str) -> None:
    assert path_of(target) == path


@pytest.mark.parametrize("given_id", ["r1", "a b", "~!", "x" * LONGEST_REQUEST_ID])
def test_an_id_is_taken_over(given_id: str) -> None:
    assert request_id_of(given_id) == given_id


@pytest.mark.parametrize(
    "given_id", ["", " ", " a", "a ", "a\n", "\n", "a\tb", "é", "a\x7f", "x" * (LONGEST_REQUEST_ID + 1)], ids=repr
)
def test_an_id_that_can_not_be_used_is_replaced(given_id: str) -> None:
    made = request_id_of(given_id)
    assert (len(made), set(made) <= set("0123456789abcdef"), made != request_id_of(given_id)) == (32, True, True)
