"""Helpers for the parsers of JSON APIs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from app.domain.errors import BadRequestError
from app.parsing.json_body import count_of, json_object, kind_of, model_of, text_or_none


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param(None, "nothing", id="nothing"),
        pytest.param("", "an empty string", id="empty text"),
        pytest.param("x", "a string", id="text"),
        pytest.param([], "an empty list", id="empty list"),
        pytest.param([0], "a list", id="list"),
        pytest.param({}, "an empty JSON object", id="empty object"),
        pytest.param({"a": 1}, "a JSON object", id="object"),
        pytest.param(0, "a number", id="zero"),
        pytest.param(1.5, "a number", id="fraction"),
        pytest.param(math.nan, "a number", id="not a number"),
        pytest.param(False, "a boolean", id="false"),
        pytest.param(True, "a boolean", id="true"),
        pytest.param(b"x", "a value", id="not a JSON type"),
    ],
)
def test_the_kind_of_a_value(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        pytest.param({"new": 5, "old": 6}, 5, id="the first key"),
        pytest.param({"old": 6}, 6, id="the second key"),
        pytest.param({"new": None, "old": 6}, 6, id="null for the first"),
        pytest.param({"new": -1, "old": 6}, 6, id="a negative number for the first"),
        pytest.param({"new": "5", "old": 6}, 6, id="text for the first"),
        pytest.param({"new": True, "old": 6}, 6, id="a boolean for the first"),
        pytest.param({"new": 5.0, "old": 6}, 6, id="a fraction for the first"),
        pytest.param({"new": 0, "old": 6}, 0, id="zero"),
        pytest.param({}, None, id="neither"),
        pytest.param(None, None, id="nothing"),
        pytest.param([5], None, id="a list"),
        pytest.param("new", None, id="text"),
    ],
)
def test_the_first_key_with_a_count_is_used(fields: Any, count: int | None) -> None:
    assert count_of(fields, "new", "old") == count


@pytest.mark.parametrize(
    ("value", "text"), [("x", "x"), (" ", " "), ("", None), (None, None), (5, None), (["x"], None)]
)
def test_only_non_empty_text_is_text(value: Any, text: str | None) -> None:
    assert text_or_none(value) == text


@pytest.mark.parametrize("value", [None, "", 5, ["demo"], {"id": "demo"}, True])
def test_a_model_is_required(value: Any) -> None:
    with pytest.raises(BadRequestError, match="'model' must be the name of a model"):
        model_of({"model": value})


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        pytest.param(b'{"model": "a"}', {"model": "a"}, id="plain"),
        pytest.param(b'{"a": "\\ud800"}', {"a": "\ud800"}, id="lone surrogate"),
        pytest.param(b'{"a": 1, "a": 2}', {"a": 2}, id="another key twice"),
        pytest.param(b'{"x": "model", "model": "a"}', {"x": "model", "model": "a"}, id="the word twice"),
        pytest.param(
            b'{"model": "a", "x": {"model": "b"}}', {"model": "a", "x": {"model": "b"}}, id="the key in two objects"
        ),
        pytest.param(b"{}", {}, id="empty"),
    ],
)
def test_an_object_is_decoded(body: bytes, fields: Any) -> None:
    assert json_object(body) == fields


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b'{"model": "a",\n "b" 1}', "at line 2 column 6", id="where it breaks"),
        pytest.param(b'{"a": ' + b"1" * 5000 + b', "b": NaN}', "not valid JSON", id="a number of many digits"),
        pytest.param(
            b'{"model": "a", "x": {"model": "b", "model": "c"}}', "duplicate key 'model'", id="model twice further down"
        ),
        pytest.param(b'{"model": "a", "model": "a"}', "duplicate key 'model'", id="the same model twice"),
        pytest.param(b'{"a":' * 100_000, "nested too deeply", id="too deep"),
        pytest.param(b'{"a": Infinity}', "Infinity is not allowed", id="infinite"),
        pytest.param(b"1", "found a number", id="a number"),
        pytest.param(b"false", "found a boolean", id="a boolean"),
    ],
)
def test_a_body_that_is_not_an_object_is_rejected_with_a_reason(body: bytes, said: str) -> None:
    with pytest.raises(BadRequestError, match=said):
        json_object(body)
