"""What every parser promises, for every built-in one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Parser
from pointsman.testing import check_parser
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType

calls = count()


class Answering:
    """A parser that answers as told."""

    def __init__(self, answer: Callable[[RawRequest], Any], paths: Any = ()) -> None:
        self._answer = answer
        self.paths = paths

    def parse(self, raw: RawRequest) -> Any:
        return self._answer(raw)


@pytest.mark.parametrize("kind", every(Parser))
def test_every_built_in_parser_keeps_the_contract(kind: PluginType) -> None:
    check_parser(build(kind))


@pytest.mark.parametrize("kind", every(Parser))
def test_every_built_in_parser_claims_its_paths_as_a_class(kind: PluginType) -> None:
    assert isinstance(kind.cls.paths, tuple)


def test_no_two_built_in_parsers_claim_one_path() -> None:
    claims = [path for kind in types_of(Parser) for path in kind.cls.paths]
    assert len(set(claims)) == len(claims)


def test_one_built_in_parser_takes_what_is_left() -> None:
    assert [kind.mark.type for kind in types_of(Parser) if not kind.cls.paths] == ["passthrough-parser"]


def test_the_suite_covers_every_module_of_parsers() -> None:
    assert modules_in("parsers") <= {kind.cls.__module__ for kind in types_of(Parser)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Answering(lambda raw: None), id="gives nothing"),
        pytest.param(Answering(lambda raw: raw), id="gives the raw request"),
        pytest.param(Answering(lambda raw: InferenceRequest("other", raw.path)), id="another request"),
        pytest.param(Answering(lambda raw: raw.parsed(prompts=("text",))), id="a prompt as text"),
        pytest.param(Answering(lambda raw: raw.parsed(), "completions"), id="one path as text"),
        pytest.param(Answering(lambda raw: raw.parsed(), ("/",)), id="a path without a segment"),
        pytest.param(Answering(lambda raw: raw.parsed(model=str(next(calls)))), id="another answer each time"),
    ],
)
def test_the_check_finds_a_parser_that_answers_wrongly(plugin: Any) -> None:
    with pytest.raises(AssertionError):
        check_parser(plugin)


def test_the_check_finds_something_that_is_no_parser() -> None:
    with pytest.raises(AssertionError, match="no Parser"):
        check_parser(object())  # type: ignore[arg-type]


def test_the_check_lets_a_parser_s_own_error_through() -> None:
    with pytest.raises(ZeroDivisionError):
        check_parser(Answering(lambda raw: 1 / 0))


def test_the_check_takes_a_parser_that_refuses_everything() -> None:
    def refuse(raw: RawRequest) -> Any:
        raise BadRequestError("no")

    check_parser(Answering(refuse, ("x/y",)))


def test_the_check_finds_a_parser_that_refuses_without_a_reason() -> None:
    def refuse(raw: RawRequest) -> Any:
        raise BadRequestError

    with pytest.raises(AssertionError, match="no reason"):
        check_parser(Answering(refuse))
