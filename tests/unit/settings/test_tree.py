"""Trees of values with their origins."""

from __future__ import annotations

import pytest

from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.tree import (
    DEFAULT,
    Entries,
    Entry,
    Node,
    Origin,
    Scalar,
    is_null,
    kind,
    locate,
    origin_of,
    plain,
    without,
)

TEXT = "a: 1\nb:\n  - x\n  - {c: null}\n"


@pytest.fixture
def tree() -> Entries:
    """A mapping with a list with a mapping."""
    return read_yaml(TEXT, "f.yaml", Faults())


def test_an_origin_with_a_line_is_formatted_as_editors_expect() -> None:
    assert str(Origin("f.yaml", 3, 7)) == "f.yaml:3:7"


def test_an_origin_without_a_line_is_formatted_as_its_source() -> None:
    assert str(Origin("environment POINTSMAN_A__B")) == "environment POINTSMAN_A__B"


def test_keys_and_items_extend_the_path() -> None:
    assert Origin("f", 1, 1).key("a", 1, 1).item(2, 3, 4).key("b", 5, 6).path == "a[2].b"


def test_an_item_without_a_position_has_that_of_the_list() -> None:
    assert Origin("f", 3, 4).item("name") == Origin("f", 3, 4, "[name]")


def test_plain_data_has_no_origins(tree: Entries) -> None:
    assert plain(tree) == {"a": 1, "b": ["x", {"c": None}]}


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param((), "1:1", id="the root"),
        pytest.param(("a",), "1:1", id="a key"),
        pytest.param(("b", 0), "3:5", id="an item"),
        pytest.param(("b", 1, "c"), "4:6", id="a key in an item"),
        pytest.param(("b", 1, "d"), "4:5", id="a key that is not there"),
        pytest.param(("b", 7, "d"), "2:1", id="an item that is not there"),
        pytest.param(("a", "x"), "1:1", id="below a scalar"),
    ],
)
def test_a_path_is_located_at_its_longest_existing_prefix(
    tree: Entries, path: tuple[str | int, ...], place: str
) -> None:
    assert str(locate(tree, path)) == f"f.yaml:{place}"


@pytest.mark.parametrize(
    ("path", "left"),
    [
        pytest.param(("a",), {"b": ["x", {"c": None}]}, id="a key"),
        pytest.param(("b", 0), {"a": 1, "b": [{"c": None}]}, id="an item"),
        pytest.param(("b", 1, "c"), {"a": 1, "b": ["x", {}]}, id="a key in an item"),
        pytest.param(("b", 1, "d"), {"a": 1, "b": ["x"]}, id="the item that lacks a key"),
        pytest.param(("b", 7), {"a": 1}, id="the list that lacks an item"),
        pytest.param(("a", "x", "y"), {"b": ["x", {"c": None}]}, id="the scalar in place of a mapping"),
    ],
)
def test_without_removes_the_longest_existing_prefix_of_a_path(
    tree: Entries, path: tuple[str | int, ...], left: object
) -> None:
    found = without(tree, path)
    assert found is not None
    assert plain(found) == left


@pytest.mark.parametrize("path", [(), ("z", "y")], ids=["no path", "a path that does not begin here"])
def test_without_removes_the_whole_tree_if_the_path_starts_elsewhere(tree: Entries, path: tuple[str, ...]) -> None:
    assert without(tree, path) is None


def test_without_does_not_change_the_tree(tree: Entries) -> None:
    without(tree, ("b", 0))
    assert plain(tree) == {"a": 1, "b": ["x", {"c": None}]}


def test_a_key_can_be_set_and_removed(tree: Entries) -> None:
    entry = Entry(DEFAULT, Scalar(2, DEFAULT))
    assert plain(tree.with_("b", None).with_("d", entry).with_("gone", None)) == {"a": 1, "d": 2}


def test_the_origin_of_an_unset_value_is_the_default(tree: Entries) -> None:
    assert origin_of(tree, ("b", 1, "d")) == DEFAULT


def test_the_origin_of_a_set_value_is_its_position(tree: Entries) -> None:
    assert str(origin_of(tree, ("b", 1, "c"))) == "f.yaml:4:6"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("{}", "a mapping", id="a mapping"),
        pytest.param("[]", "a list", id="a list"),
        pytest.param("null", "nothing", id="null"),
        pytest.param("true", "a boolean", id="a boolean"),
        pytest.param("5", "a number", id="a whole number"),
        pytest.param("5.5", "a number", id="a fraction"),
        pytest.param("x", "text", id="text"),
    ],
)
def test_the_kind_of_a_node_has_a_name(text: str, name: str) -> None:
    assert kind(read_yaml(f"a: {text}", "f", Faults()).entries["a"].node) == name


@pytest.mark.parametrize(
    ("node", "null"),
    [
        pytest.param(None, False, id="nothing there"),
        pytest.param(Scalar(None, DEFAULT), True, id="null"),
        pytest.param(Scalar("", DEFAULT), False, id="empty text"),
        pytest.param(Entries({}, DEFAULT), False, id="an empty mapping"),
    ],
)
def test_only_null_is_null(node: Node | None, null: bool) -> None:
    assert is_null(node) is null


def test_the_first_non_empty_text_is_returned() -> None:
    entries = {key: Entry(DEFAULT, Scalar(value, DEFAULT)) for key, value in {"a": 5, "b": "", "c": "x"}.items()}
    assert Entries(entries, DEFAULT).text("z", "a", "b", "c") == "x"


def test_text_is_none_if_there_is_none(tree: Entries) -> None:
    assert tree.text("a", "b", "z") is None
