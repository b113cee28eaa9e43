"""Writing YAML that the reader reads back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.tree import DEFAULT, Entries, Entry, Items, Node, Origin, Scalar
from app.settings.writer import scalar_text, write_yaml

from .given import read

ODD = st.text(
    st.sampled_from("ab0-.:#?!&*<>|@%'\"\\/~=,[]{}+_ \t\r\n\x00\x1b\x7f\x85\xa0\u2028\ufeff\uffffé🚂"), max_size=8
)
TEXT = st.one_of(ODD, st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
SCALARS = st.one_of(TEXT, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20
)


def tree_of(value: Any, origin: Origin = DEFAULT) -> Node:
    """A tree of plain data."""
    if isinstance(value, dict):
        return Entries({key: Entry(origin, tree_of(below, origin)) for key, below in value.items()}, origin)
    if isinstance(value, list):
        return Items(tuple(tree_of(item, origin) for item in value), origin)
    return Scalar(value, origin)


def written(data: dict[str, Any], origin: Origin | None = None) -> str:
    """The YAML of plain data, with its origins if there is one."""
    tree = tree_of(data, origin or DEFAULT)
    assert isinstance(tree, Entries)
    return write_yaml(tree, origins=origin is not None)


def typed(value: Any) -> Any:
    """Plain data in which 1, 1.0 and True differ."""
    if isinstance(value, dict):
        return {key: typed(below) for key, below in value.items()}
    return [typed(item) for item in value] if isinstance(value, list) else (type(value), value)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(TEXT, TREES, max_size=5))
@example({"a # b": "c # d", "e: f": "g: h", "-": "- i", "line\nbreak": "two\n\nlines\n"})
def test_written_data_is_read_back_unchanged(data: dict[str, Any]) -> None:
    assert typed(read(written(data))) == typed(data)


@settings(deadline=None)
@given(st.dictionaries(TEXT, TREES, max_size=5))
def test_comments_do_not_change_what_is_read_back(data: dict[str, Any]) -> None:
    assert typed(read(written(data, Origin("a b.yaml", 3, 4)))) == typed(data)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\x7f", id="delete"),
        pytest.param("a\x85b", id="next line"),
        pytest.param("a\u2028b", id="line separator"),
        pytest.param("a\u2029b", id="paragraph separator"),
        pytest.param("\ufeff", id="byte order mark"),
        pytest.param("\uffff", id="no character"),
        pytest.param("\x00", id="zero"),
        pytest.param("... x", id="dots and a word"),
        pytest.param("--- x", id="dashes and a word"),
        pytest.param("a\tb", id="a tab"),
        pytest.param("<<", id="a merge sign"),
        pytest.param("a:", id="a colon at the end"),
        pytest.param("a #b", id="a comment"),
        pytest.param(" a ", id="spaces around"),
        pytest.param("x" * 2000, id="longer than a simple key may be"),
    ],
)
def test_odd_text_is_kept_as_a_key_and_as_a_value(text: str) -> None:
    data = {text: text, "list": [text, {text: [text]}]}
    assert read(written(data)) == data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("queue-scorer", "queue-scorer", id="a word"),
        pytest.param("/etc/pool.yaml", "/etc/pool.yaml", id="a path"),
        pytest.param("127.0.0.0/8", "127.0.0.0/8", id="a network"),
        pytest.param("2s", "2s", id="a duration"),
        pytest.param("two words", "two words", id="two words"),
        pytest.param("5", '"5"', id="text like a number"),
        pytest.param("true", '"true"', id="text like a boolean"),
        pytest.param("", '""', id="empty text"),
        pytest.param("::1", '"::1"', id="an address that begins with a colon"),
        pytest.param("-x", '"-x"', id="a dash first"),
        pytest.param("a: b", '"a: b"', id="a colon and a space"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
        pytest.param(None, "null", id="null"),
        pytest.param(7, "7", id="a whole number"),
        pytest.param(0.5, "0.5", id="a fraction"),
        pytest.param(2.0, "2.0", id="a fraction that is whole"),
        pytest.param(math.inf, ".inf", id="infinity"),
        pytest.param(-math.inf, "-.inf", id="minus infinity"),
        pytest.param(math.nan, ".nan", id="not a number"),
    ],
)
def test_a_scalar_is_quoted_only_if_necessary(value: str | float | bool | None, text: str) -> None:
    assert scalar_text(value) == text


def test_an_empty_tree_is_an_empty_mapping() -> None:
    assert written({}) == "{}\n"


def test_lists_and_mappings_are_written_as_blocks() -> None:
    text = written({"a": {"b": [1, {"c": 2, "d": {}}, [3]], "e": []}})
    assert text == "a:\n  b:\n    - 1\n    - c: 2\n      d: {}\n    -\n      - 3\n  e: []\n"


def test_with_origins_each_value_has_a_comment() -> None:
    tree = read_yaml("a:\n  - 1\n  - b: x\n", "f.yaml", Faults())
    assert write_yaml(tree, origins=True) == "a:\n  - 1  # f.yaml:2:5\n  - b: x  # f.yaml:3:5\n"


def test_a_line_break_in_a_source_name_does_not_break_the_comment() -> None:
    assert read(written({"a": 1}, Origin("new\nline: 2"))) == {"a": 1}
