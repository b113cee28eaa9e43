"""A request as it is received: parsed, decompressed, given another model, and reported if it can't be parsed."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import BadRequestError, BodyTooLargeError, PluginError, RoutingError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.parsers import Parsers
from app.transports.receiving import LONGEST_REQUEST_ID, ReceivedRequest, Receiver, path_of, request_id_of
from plugins.parsers.openai import OpenAIParser
from plugins.parsers.passthrough import PassthroughParser

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


class Inbox:
    """A receiver with four parsers, and the requests that it refused."""

    def __init__(self) -> None:
        self.refused: list[tuple[InferenceRequest, RoutingError]] = []
        parsers: list[Any] = [OpenAIParser(), Raising(), ByHeader(), PassthroughParser(PassthroughParser.Params())]
        self.receiver = Receiver(
            parsers=Parsers([(type(parser).__name__, parser) for parser in parsers]),
            refuse=lambda request, error: self.refused.append((request, error)),
        )

    def receive(self, body: bytes = BODY, *, path: str = CHAT, method: str = "POST", **given: str) -> ReceivedRequest:
        raw = RawRequest("r1", path, body, method, {"x-model": "demo"}, len(body))
        encoding, model = given.get("encoding", ""), given.get("model", "")
        return self.receiver.receive(raw, encoding=encoding, model=model, limit=LIMIT)

    def error(self, *args: Any, **given: Any) -> RoutingError:
        """Why a request can't be parsed, which is also reported, once."""
        with pytest.raises(RoutingError) as caught:
            self.receive(*args, **given)
        ((request, error),) = self.refused
        assert (request.id, request.method, request.path) == ("r1", "POST", given.get("path", CHAT))
        assert error is caught.value
        return caught.value


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def test_a_request_is_forwarded_as_it_came(inbox: Inbox) -> None:
    request, body = inbox.receive()
    assert (request.id, request.path, request.model, request.size, body) == ("r1", CHAT, "demo", len(BODY), None)
    assert (request.headers, inbox.refused) == ({"x-model": "demo"}, [])


@pytest.mark.parametrize("encoding", ["gzip", "GZIP ", "x-gzip"])
def test_a_compressed_request_is_parsed_and_forwarded_as_it_came(inbox: Inbox, encoding: str) -> None:
    packed = gzip.compress(BODY)
    request, body = inbox.receive(packed, encoding=encoding)
    assert (request.model, request.size, body) == ("demo", len(packed), None)


def test_a_request_is_given_another_model(inbox: Inbox) -> None:
    request, body = inbox.receive(model="other")
    assert (request.model, body, request.size) == ("other", OTHER, len(BODY))
    assert request.prompts == inbox.receive().request.prompts


def test_a_compressed_request_with_another_model_is_forwarded_uncompressed(inbox: Inbox) -> None:
    packed = gzip.compress(BODY)
    request, body = inbox.receive(packed, encoding="gzip", model="other")
    assert (request.model, body, request.size) == ("other", OTHER, len(packed))


def test_the_same_model_changes_nothing(inbox: Inbox) -> None:
    assert inbox.receive(model="demo").body is None


@pytest.mark.parametrize(
    ("path", "body", "method"),
    [
        ("/v1/conversations", b'{"items": [{"role": "user", "content": "hi"}]}', "POST"),
        ("/elsewhere", b"no JSON", "POST"),
        ("/v1/models", b"", "GET"),
    ],
)
def test_a_request_that_names_no_model_is_given_none(inbox: Inbox, path: str, body: bytes, method: str) -> None:
    request, changed = inbox.receive(body, path=path, method=method, model="other")
    assert (request.model, changed, request.method) == ("", None, method)


@pytest.mark.parametrize("body", [b"no JSON", b"{}"])
def test_a_model_that_is_not_in_the_body_stays(inbox: Inbox, body: bytes) -> None:
    request, changed = inbox.receive(body, path="/by-header", model="other")
    assert (request.model, changed) == ("demo", None)


def test_a_body_in_an_unknown_encoding_can_not_be_parsed(inbox: Inbox) -> None:
    assert isinstance(inbox.error(encoding="br"), BadRequestError)
    assert inbox.receive(path="/elsewhere", encoding="br").body is None


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
def test_a_request_that_can_not_be_parsed_is_refused(
    inbox: Inbox, body: bytes, encoding: str, kind: type[RoutingError]
) -> None:
    assert type(inbox.error(body, encoding=encoding)) is kind


def test_a_parser_that_fails_is_named(inbox: Inbox) -> None:
    error = inbox.error(path="/raises")
    assert isinstance(error, PluginError)
    assert (error.plugin, type(error.cause)) == ("Raising", LookupError)


@settings(max_examples=100, deadline=None)
@given(model=st.text(min_size=1, max_size=10))
def test_any_model_may_be_given(model: str) -> None:
    request, body = Inbox().receive(model=model)
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
def test_a_path_has_no_query_and_no_percent_escapes(target: str, path: str) -> None:
    assert path_of(target) == path


@pytest.mark.parametrize("given_id", ["r1", "a b", "~!", "x" * LONGEST_REQUEST_ID])
def test_a_client_s_id_is_kept(given_id: str) -> None:
    assert request_id_of(given_id) == given_id


@pytest.mark.parametrize(
    "given_id", ["", " ", " a", "a ", "a\n", "\n", "a\tb", "é", "a\x7f", "x" * (LONGEST_REQUEST_ID + 1)], ids=repr
)
def test_an_invalid_id_is_replaced(given_id: str) -> None:
    made = request_id_of(given_id)
    assert (len(made), set(made) <= set("0123456789abcdef"), made != request_id_of(given_id)) == (32, True, True)
