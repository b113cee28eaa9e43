"""Replacing the model in a request body changes no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from app.domain.errors import BadRequestError
from app.parsing.json_body import json_object
from app.parsing.rewriting import with_model

BLANKS = st.text(" \t\n\r", max_size=3)
TEXTS = st.text(max_size=8) | st.sampled_from(["model", '"model":', "\\", '"', "{", "}", "é", "\U0001f600", "a,b:c"])


def escaped(text: str) -> str:
    """`text` with every character escaped."""
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2)) + '"'


def written(text: str) -> st.SearchStrategy[str]:
    """Encodings of a text in JSON."""
    forms = [json.dumps(text), json.dumps(text, ensure_ascii=False), escaped(text)]
    return st.sampled_from(forms)


STRINGS = TEXTS.flatmap(written)
NUMBERS = st.sampled_from(["0", "-1", "1.0", "1e5", "1E-7", "12345678901234567890123", "0.10"])
LEAVES = STRINGS | NUMBERS | st.sampled_from(["true", "false", "null"])


@st.composite
def spread(draw: Any, opening: str, items: list[str], closing: str) -> str:
    """Items separated by commas, with whitespace around everything."""
    around = [draw(BLANKS) + item + draw(BLANKS) for item in items]
    return opening + (",".join(around) if around else draw(BLANKS)) + closing


@st.composite
def objects(draw: Any, values: st.SearchStrategy[str], keys: st.SearchStrategy[str] = STRINGS) -> str:
    fields = [draw(keys) + draw(BLANKS) + ":" + draw(BLANKS) + draw(values) for _ in range(draw(st.integers(0, 3)))]
    return str(draw(spread("{", fields, "}")))


def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lists = st.lists(values, max_size=3).flatmap(lambda items: spread("[", items, "]"))
    return lists | objects(values, STRINGS | st.just('"model"'))


VALUES = st.recursive(LEAVES, containers, max_leaves=8)
OTHER_KEYS = TEXTS.filter(lambda text: text != "model").flatmap(written)


@st.composite
def bodies(draw: Any) -> tuple[str, str, str]:
    """A body in three parts; the second one is the value of the model."""
    before, after = ([draw(OTHER_KEYS) + ":" + draw(VALUES) for _ in range(draw(st.integers(0, 3)))] for _ in range(2))
    key = draw(written("model")) + draw(BLANKS) + ":" + draw(BLANKS)
    value = draw(STRINGS)
    start = draw(BLANKS) + "{" + draw(BLANKS) + "".join(field + draw(BLANKS) + "," + draw(BLANKS) for field in before)
    end = draw(BLANKS) + "".join("," + draw(BLANKS) + field + draw(BLANKS) for field in after) + "}" + draw(BLANKS)
    return start + key, value, end


@settings(max_examples=200, deadline=None)
@given(parts=bodies(), model=TEXTS)
@example(parts=('{"model":', '"a"', "}"), model="b")
@example(parts=('{"z":{"model":"x"},"model" : ', '"a"', ' ,"model2":"y"}'), model='"')
def test_only_the_model_changes(parts: tuple[str, str, str], model: str) -> None:
    before, value, after = parts
    body = (before + value + after).encode()
    changed = with_model(body, model)
    assert changed == before.encode() + json.dumps(model).encode() + after.encode()
    assert json.loads(changed) == {**json.loads(body), "model": model}


@settings(max_examples=100, deadline=None)
@given(body=VALUES)
def test_a_body_that_names_no_model_is_not_changed(body: str) -> None:
    fields = json.loads(body)
    assume(not isinstance(fields, dict) or "model" not in fields)
    assert with_model(body.encode(), "new") is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a"}', b'{"model":"new"}'),
        (b' \n{ "model"\t:\r\n"a" , "b":1 } ', b' \n{ "model"\t:\r\n"new" , "b":1 } '),
        (b'{"b":{"model":"x"},"model":"a"}', b'{"b":{"model":"x"},"model":"new"}'),
        (b'{"b":"\\"model\\":\\"x\\"","model":"a"}', b'{"b":"\\"model\\":\\"x\\"","model":"new"}'),
        (b'{"mod\\u0065l":"a"}', b'{"mod\\u0065l":"new"}'),
        (b'{"model":null}', b'{"model":"new"}'),
        (b'{"model":{"model":["a"]}}', b'{"model":"new"}'),
        (b'{"b":"\\ud83d","model":"a"}', b'{"b":"\\ud83d","model":"new"}'),
        ('{"é":"ü","model":"ö"}'.encode(), '{"é":"ü","model":"new"}'.encode()),
        (b'{"n":12345678901234567890123,"model":"a"}', b'{"n":12345678901234567890123,"model":"new"}'),
    ],
)
def test_the_model_is_replaced_in_place(body: bytes, expected: bytes) -> None:
    assert with_model(body, "new") == expected


@pytest.mark.parametrize(
    "body",
    [b"{}", b" { } ", b"[]", b'"model"', b'[{"model":"a"}]', b"", b"null", b'{"b":{"model":"a"}}', b'{"Model":"a"}'],
)
def test_a_body_without_a_model_gives_none(body: bytes) -> None:
    assert with_model(body, "new") is None


def test_the_name_of_the_model_is_encoded_as_json() -> None:
    assert with_model(b'{"model":"a"}', 'a"b\\c\né') == b'{"model":"a\\"b\\\\c\\n\\u00e9"}'


READ_BY_THE_PARSER = [
    pytest.param('{"model":"a"}'.encode("utf-8-sig"), id="with a byte order mark"),
    pytest.param('{"model":"a"}'.encode("utf-16"), id="UTF-16"),
    pytest.param('{"model":"a"}'.encode("utf-16-le"), id="UTF-16 without a mark"),
    pytest.param(b'{"model":"a","b":"\xed\xa0\x80"}', id="a lone surrogate"),
    pytest.param(b'{"model":"a","mod\\u0065l":"b"}', id="a duplicate whose key is escaped"),
]


@pytest.mark.parametrize("body", READ_BY_THE_PARSER)
def test_the_model_of_any_parsed_body_can_be_replaced(body: bytes) -> None:
    assert json_object(body)["model"] in ("a", "b")
    changed = with_model(body, "new")
    assert changed is not None
    assert json_object(changed) == {**json_object(body), "model": "new"}


def test_a_body_nested_too_deeply_is_a_bad_request() -> None:
    body = b'{"b":' + b"[" * 1015 + b"]" * 1015 + b',"model":"a"}'
    assert json_object(body)["model"] == "a"
    with pytest.raises(BadRequestError, match="nested too deeply"):
        with_model(body, "new")
