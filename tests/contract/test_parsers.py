"""The contract of `Parser`, for every built-in one."""

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


class FakeParser:
    """A parser that returns what `call` returns."""

    def __init__(self, call: Callable[[RawRequest], Any], paths: Any = ()) -> None:
        self._call = call
        self.paths = paths

    def parse(self, raw: RawRequest) -> Any:
        return self._call(raw)


@pytest.mark.parametrize("kind", every(Parser))
def test_every_built_in_parser_keeps_the_contract(kind: PluginType) -> None:
    check_parser(build(kind))


@pytest.mark.parametrize("kind", every(Parser))
def test_every_built_in_parser_has_its_paths_on_the_class(kind: PluginType) -> None:
    assert isinstance(kind.cls.paths, tuple)


def test_no_two_built_in_parsers_claim_the_same_path() -> None:
    claims = [path for kind in types_of(Parser) for path in kind.cls.paths]
    assert len(set(claims)) == len(claims)


def test_one_built_in_parser_takes_all_other_paths() -> None:
    assert [kind.mark.type for kind in types_of(Parser) if not kind.cls.paths] == ["passthrough-parser"]


def test_the_suite_covers_every_module_of_parsers() -> None:
    assert modules_in("parsers") <= {kind.cls.__module__ for kind in types_of(Parser)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(FakeParser(lambda raw: None), id="returns None"),
        pytest.param(FakeParser(lambda raw: raw), id="returns the raw request"),
        pytest.param(FakeParser(lambda raw: InferenceRequest("other", raw.path)), id="another request"),
        pytest.param(FakeParser(lambda raw: raw.parsed(prompts=("text",))), id="a prompt as text"),
        pytest.param(FakeParser(lambda raw: raw.parsed(), "completions"), id="one path as text"),
        pytest.param(FakeParser(lambda raw: raw.parsed(), ("/",)), id="a path without a segment"),
        pytest.param(FakeParser(lambda raw: raw.parsed(model=str(next(calls)))), id="something else each time"),
    ],
)
def test_the_check_rejects_wrong_return_values(plugin: Any) -> None:
    with pytest.raises(AssertionError):
        check_parser(plugin)


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Parser"):
        check_parser(object())  # type: ignore[arg-type]


def test_the_check_raises_the_parser_s_error() -> None:
    with pytest.raises(ZeroDivisionError):
        check_parser(FakeParser(lambda raw: 1 / 0))


def test_the_check_accepts_a_parser_that_rejects_everything() -> None:
    def reject(raw: RawRequest) -> Any:
        raise BadRequestError("no")

    check_parser(FakeParser(reject, ("x/y",)))


def test_the_check_rejects_an_error_without_a_reason() -> None:
    def reject(raw: RawRequest) -> Any:
        raise BadRequestError

    with pytest.raises(AssertionError, match="no error with a reason"):
        check_parser(FakeParser(reject))
