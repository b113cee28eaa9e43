"""Selection of the parser for a path, and handling of its errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.domain.errors import BadRequestError, PluginError, SaturatedError
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Parser
from app.parsing.parsers import Parsers
from tests.unit.parsing.given import raw_of


class Named:
    """A parser that returns its own name as the model."""

    def __init__(self, name: str, *paths: str, error: BaseException | None = None) -> None:
        self.name = name
        self.paths: Sequence[str] = paths
        self._error = error

    def parse(self, raw: RawRequest) -> InferenceRequest:
        if self._error is not None:
            raise self._error
        return raw.parsed(model=self.name)


def parsers(*named: Named) -> Parsers:
    return Parsers([(parser.name, parser) for parser in named])


def parser_of(path: str, *named: Named) -> str | None:
    """The name of the parser for `path`, None if there is none."""
    try:
        return parsers(*named).parse(raw_of(path)).model
    except BadRequestError:
        return None


CHAT = Named("chat", "chat/completions")
COMPLETIONS = Named("completions", "completions")
REST = Named("rest")
OTHER_REST = Named("other-rest")


def test_the_fake_is_a_parser() -> None:
    assert isinstance(CHAT, Parser)


@pytest.mark.parametrize(
    ("path", "reader"),
    [
        pytest.param("/v1/completions", "completions", id="one segment"),
        pytest.param("/v1/chat/completions", "chat", id="two segments beat one"),
        pytest.param("/completions", "completions", id="nothing before it"),
        pytest.param("completions", "completions", id="without a slash"),
        pytest.param("/a/b/c/chat/completions", "chat", id="much before it"),
        pytest.param("/v1/completions/", "completions", id="slash at the end"),
        pytest.param("/v1/completions//", "completions", id="slashes at the end"),
        pytest.param("//v1//chat/completions", "chat", id="double slashes before it"),
        pytest.param("/v1/chat//completions", "completions", id="double slash within it"),
        pytest.param("/v1/xcompletions", None, id="a segment that only ends with it"),
        pytest.param("/v1/chat/xcompletions", None, id="a second segment that only ends with it"),
        pytest.param("/v1/xchat/completions", "completions", id="a first segment that only ends with it"),
        pytest.param("/v1/completions/x", None, id="something after it"),
        pytest.param("/v1/completion", None, id="less than it"),
        pytest.param("/v1/Completions", None, id="another case"),
        pytest.param("/v1/chat", None, id="its beginning"),
        pytest.param("/", None, id="the root"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_longest_suffix_of_whole_segments_wins(path: str, reader: str | None) -> None:
    assert [parser_of(path, *order) for order in ((CHAT, COMPLETIONS), (COMPLETIONS, CHAT))] == [reader, reader]
    assert parser_of(path, CHAT, COMPLETIONS, REST) == (reader or "rest")


@pytest.mark.parametrize("claim", ["/chat/completions", "chat/completions/", "/chat/completions/"])
def test_slashes_around_a_claimed_path_are_ignored(claim: str) -> None:
    assert parser_of("/v1/chat/completions", Named("slashes", claim), COMPLETIONS) == "slashes"


@pytest.mark.parametrize(
    ("named", "reader"),
    [
        pytest.param(
            [COMPLETIONS, Named("twin", "completions")], "completions", id="the first of two with the same claim"
        ),
        pytest.param([Named("twin", "completions"), COMPLETIONS], "twin", id="the first in the other order"),
        pytest.param([REST, COMPLETIONS], "completions", id="a claim beats an earlier parser without one"),
        pytest.param([Named("both", "x", "completions"), REST], "both", id="the second claim of a parser"),
    ],
)
def test_the_order_matters_only_between_equal_claims(named: list[Named], reader: str) -> None:
    assert parser_of("/v1/completions", *named) == reader


@pytest.mark.parametrize(
    ("named", "reader"),
    [
        pytest.param([COMPLETIONS, REST], "rest", id="the one without paths"),
        pytest.param([REST, COMPLETIONS], "rest", id="at any position"),
        pytest.param([COMPLETIONS, REST, OTHER_REST], "rest", id="the first of two"),
        pytest.param([OTHER_REST, COMPLETIONS, REST], "other-rest", id="the first in the other order"),
        pytest.param([COMPLETIONS], None, id="none"),
        pytest.param([], None, id="no parsers"),
    ],
)
def test_an_unclaimed_path_goes_to_the_first_parser_without_paths(named: list[Named], reader: str | None) -> None:
    assert parser_of("/v1/rerank", *named) == reader


def test_without_a_parser_the_error_names_the_path() -> None:
    with pytest.raises(BadRequestError, match="/v1/rerank"):
        parsers(COMPLETIONS).parse(raw_of("/v1/rerank"))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("broken"), id="ValueError"),
        pytest.param(KeyError("model"), id="KeyError"),
        pytest.param(RecursionError("too deep"), id="RecursionError"),
        pytest.param(StopIteration(), id="StopIteration"),
    ],
)
def test_an_exception_in_a_parser_becomes_a_plugin_error_with_its_name(error: Exception) -> None:
    with pytest.raises(PluginError) as caught:
        parsers(COMPLETIONS, Named("faulty", "chat/completions", error=error)).parse(raw_of("/v1/chat/completions"))
    assert (caught.value.plugin, caught.value.cause, caught.value.__cause__) == ("faulty", error, error)
    assert "'faulty'" in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(BadRequestError("no"), id="bad request"),
        pytest.param(SaturatedError("full"), id="another routing error"),
    ],
)
def test_a_routing_error_of_a_parser_is_raised_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        parsers(Named("strict", error=error)).parse(raw_of("/v1/x"))
    assert caught.value is error


def test_no_other_parser_is_tried_after_a_failure() -> None:
    faulty = Named("faulty", "completions", error=BadRequestError("no"))
    assert parser_of("/v1/completions", faulty, REST) is None


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize(
    ("path", "model"),
    [
        pytest.param("/v1/models/demo", "demo", id="a model"),
        pytest.param("/v1/completions", "", id="a claimed path"),
        pytest.param("/v1/rerank", "", id="an unclaimed path"),
    ],
)
def test_only_a_post_is_parsed(method: str, path: str, model: str) -> None:
    faulty = Named("faulty", "completions", error=ValueError("broken"))
    request = parsers(faulty).parse(raw_of(path, b"not read", method))
    assert (request.model, request.method, request.prompts, request.size) == (model, method, (), 8)
