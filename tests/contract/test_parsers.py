"""What every parser promises, for every built-in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Parser
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from containers.catalogue import PluginType

BODIES: Sequence[bytes] = (
    b"",
    b" \n",
    b"{}",
    b"[]",
    b"null",
    b"{",
    b"\xff\xfe\x00",
    b"\0\0\0\0\0",
    b"\0\0\0\0\x07\x12\x05\x12\x03\x01\xac\x02",
    b"\1\0\0\0\x07\x12\x05\x12\x03\x01\xac\x02",
    b"\0\0\0\0\xff\x12\x05",
    b'{"model": "demo", "messages": [{"role": "user", "content": "hello"}], "stream": true}',
    b'{"model": "demo", "prompt": "hello", "input": "hello", "text": "hello", "token_ids": [1]}',
    b'{"model": "demo", "messages": [5], "prompt": [[1], "x"], "input": {}, "items": [null], "text": [1.5]}',
    b'{"model": "demo", "messages": "\\ud800", "prompt": "\\ud800", "input": "\\ud800", "text": "\\ud800"}',
    *(
        b'{"model": "demo", "%s": ' % key + b"[" * depth + b"1" + b"]" * depth + b"}"
        for key in (b"messages", b"prompt", b"input", b"items", b"text", b"token_ids")
        for depth in (700, 50_000)
    ),
)
"""Good and bad ones of all APIs; too deep ones, cut off ones and frames of gRPC among them."""


calls = count()


class Answering:
    """A parser that answers as told."""

    def __init__(self, answer: Callable[[RawRequest], Any], paths: Any = ()) -> None:
        self._answer = answer
        self.paths = paths

    def parse(self, raw: RawRequest) -> Any:
        return self._answer(raw)


def check_parser(plugin: Parser) -> None:
    """Its paths are ends of paths; any body at them is a request that keeps what came with it, or is refused."""
    assert isinstance(plugin, Parser), f"{plugin!r} is no Parser"
    assert not isinstance(plugin.paths, str), "paths are several"
    for path in plugin.paths:
        assert path.strip("/"), "a path that is claimed has a segment"
    for path in plugin.paths or ("v1/anything", ""):
        for body in BODIES:
            raw = RawRequest("r1", f"/base/{path}", body, headers={"x-a": "1"}, size=3)
            assert outcome(plugin, raw) == outcome(plugin, raw), "asked again, the parser answered differently"


def outcome(plugin: Parser, raw: RawRequest) -> tuple[Any, ...]:
    request, refusal = None, ""
    try:
        request = plugin.parse(raw)
    except BadRequestError as error:
        refusal = str(error)
    if refusal:
        return (refusal,)
    assert isinstance(request, InferenceRequest), f"it gave {request!r}, and no reason"
    kept = (request.id, request.path, request.method, request.headers, request.size)
    assert kept == (raw.id, raw.path, raw.method, raw.headers, raw.size), "what came with the request is lost"
    assert all(isinstance(prompt, bytes) for prompt in request.prompts), "a prompt is bytes"
    return (request.model, request.adapter, request.prompts, request.streaming, request.max_output_tokens)


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
