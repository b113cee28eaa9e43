"""The strict YAML reader: values of scalars, and errors with their positions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.settings.errors import Faults
from app.settings.reader import MAX_NODES, read_scalar, read_yaml
from app.settings.tree import Entries, Items, Origin

from .given import faults_of, read

YAML_LIKE = st.text(st.sampled_from("ab0 \t\n\r:-?,[]{}#&*!|>'\"%@`<=~.\\\ufeff\x85\u2028\x00é"), max_size=60)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("1e3", 1000.0, id="an exponent without a point is a number"),
        pytest.param("1.5E-2", 0.015, id="an exponent with a point"),
        pytest.param(".5", 0.5, id="a leading point"),
        pytest.param("5.", 5.0, id="a trailing point"),
        pytest.param("-0.0", 0.0, id="minus zero"),
        pytest.param("on", "on", id="on is text"),
        pytest.param("yes", "yes", id="yes is text"),
        pytest.param("No", "No", id="no is text"),
        pytest.param("y", "y", id="y is text"),
        pytest.param("022", 22, id="a leading zero is decimal"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("0o18", "0o18", id="no octal digit"),
        pytest.param("0x10", 16, id="hexadecimal"),
        pytest.param("-0x10", "-0x10", id="signed hexadecimal is text"),
        pytest.param("0b11", "0b11", id="binary is text"),
        pytest.param("1_000", "1_000", id="an underscore makes it text"),
        pytest.param("+12", 12, id="a plus sign"),
        pytest.param("-7", -7, id="a minus sign"),
        pytest.param("12:30", "12:30", id="a time is text"),
        pytest.param("2024-01-31", "2024-01-31", id="a date is text"),
        pytest.param("2024-01-31T10:00:00Z", "2024-01-31T10:00:00Z", id="an instant is text"),
        pytest.param(".inf", math.inf, id="infinity"),
        pytest.param("+.INF", math.inf, id="plus infinity"),
        pytest.param("-.Inf", -math.inf, id="minus infinity"),
        pytest.param("inf", "inf", id="infinity without a point is text"),
        pytest.param("true", True, id="true"),
        pytest.param("True", True, id="capital true"),
        pytest.param("FALSE", False, id="loud false"),
        pytest.param("tRUE", "tRUE", id="mixed case is text"),
        pytest.param("~", None, id="a tilde"),
        pytest.param("Null", None, id="null"),
        pytest.param("", None, id="nothing"),
        pytest.param("'5'", "5", id="single quotes make text"),
        pytest.param('"true"', "true", id="double quotes make text"),
        pytest.param("''", "", id="empty quotes"),
        pytest.param("!!str 5", "5", id="a text tag makes text"),
        pytest.param('!!int "5"', 5, id="a number tag makes a number"),
        pytest.param("a b#c", "a b#c", id="a number sign inside a word"),
        pytest.param("1 # one", 1, id="a comment"),
        pytest.param("=", "=", id="an equals sign"),
    ],
)
def test_a_scalar_has_its_yaml_1_2_value(text: str, value: object) -> None:
    found = read(f"a: {text}")["a"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number_is_a_float(text: str) -> None:
    assert math.isnan(read(f"a: {text}")["a"])


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000, "0o" + "7" * 5000], ids=["decimal", "hex", "octal"])
def test_a_number_too_long_to_format_stays_text(text: str) -> None:
    assert read_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("1: a", {"1": "a"}, id="a number"),
        pytest.param("true: a", {"true": "a"}, id="a boolean"),
        pytest.param("on: a", {"on": "a"}, id="on"),
        pytest.param("null: a", {"null": "a"}, id="null"),
        pytest.param("? a\n: b", {"a": "b"}, id="an explicit key"),
        pytest.param("'<<': a", {"<<": "a"}, id="a quoted merge sign"),
    ],
)
def test_a_key_is_always_text(text: str, data: object) -> None:
    assert read(text) == data


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "# only a comment\n", "\ufeff", "---\n", "--- \n...\n", "null", "~", "{}"],
    ids=["zero bytes", "empty lines", "a comment", "a mark", "a start", "start and end", "null", "tilde", "no keys"],
)
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    assert read(text) == read(text.encode()) == {}


@pytest.mark.parametrize("text", ["\ufeffa: 1\n", b"\xef\xbb\xbfa: 1\n", "a: 1".encode("utf-16")])
def test_a_byte_order_mark_is_ignored(text: str | bytes) -> None:
    assert read(text) == {"a": 1}


def test_crlf_line_breaks_are_accepted() -> None:
    assert read(b"a: 1\r\nb:\r\n  - 2\r\n") == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "3:1: duplicate key 'a', first at line 1", id="a duplicate key"),
        pytest.param("a:\n  b: 1\n  c: {d: 1, d: 2}\n", "3:13: duplicate key 'd'", id="one in braces"),
        pytest.param("a: 1\n'a': 3\n", "2:1: duplicate key 'a'", id="one of which is quoted"),
        pytest.param("a:\n\tb: 1\n", "2:1: this is not YAML", id="a tab as indentation"),
        pytest.param("a:\n  b: 1\n\tc: 1\n", "3:1: this is not YAML", id="a tab further below"),
        pytest.param("a: 1\n---\nb: 2\n", "3:1: a second document starts here", id="two documents"),
        pytest.param("- a\n", "1:1: expected a mapping, found a list", id="a list"),
        pytest.param("hello\n", "1:1: expected a mapping, found a single value", id="a word"),
        pytest.param("# c\n\n- a\n", "3:1: expected a mapping, found a list", id="a list below a comment"),
        pytest.param("---\n  hello\n", "2:3: expected a mapping, found a single value", id="a word that is indented"),
        pytest.param("a: [1, 2\nb: 3\n", "2:2: this is not YAML", id="a bracket that stays open"),
        pytest.param("a: b: c\n", "1:5: this is not YAML", id="two colons"),
        pytest.param("a: 1\n b: 2\n", "2:3: this is not YAML", id="wrong indentation"),
        pytest.param("a: 1\nb\n", "2:1: this is not YAML", id="a key without a colon"),
        pytest.param("a: *b\n", "1:4: this is not YAML", id="an alias of nothing"),
        pytest.param('a: "\\q"\n', "1:6: this is not YAML", id="an unknown escape"),
        pytest.param("a: 1\n? [x, y]\n: 2\n", "2:3: a key must be text", id="a list as a key"),
        pytest.param("? {x: y}\n: 2\n", "1:3: a key must be text", id="a mapping as a key"),
        pytest.param("a: 1\nb: !foo x\n", "2:1: this tag is not supported", id="a custom tag"),
        pytest.param(
            "b: !!python/object:os.system {}",
            "1:1: the tag tag:yaml.org,2002:python/object:os.system is not supported",
            id="a tag of python's",
        ),
        pytest.param("a: !!set {b}\n", "1:1: the tag tag:yaml.org,2002:set is not", id="a set"),
        pytest.param("a: !!str [b]\n", "1:1: the tag tag:yaml.org,2002:str is not", id="a list as text"),
        pytest.param("a: !!binary aGk=\n", "1:1: the tag tag:yaml.org,2002:binary is not", id="bytes"),
        pytest.param("a:\n  - !!timestamp 2024-01-31\n", "2:5: the tag tag:yaml.org,2002:timestamp", id="a time"),
        pytest.param("a: 1\nb: \x01\n", "2:4: this is not YAML", id="a control character"),
        pytest.param(b"a: 1\nb: \xff\n", "2:4: this is not YAML", id="invalid UTF-8"),
        pytest.param("a: \ud800", "1:4: this is not YAML", id="half a character"),
        pytest.param("a: &x [*x]\n", "1:8: an alias refers to a node that contains it", id="an alias in itself"),
        pytest.param("a: &x {b: *x}\n", "1:8: an alias refers to a node that contains it", id="one below a key"),
        pytest.param("%YAML 3.0\n---\na: 1\n", "1:1: this is not YAML", id="another version of YAML"),
        pytest.param("a:\n  <<: 5\n", "2:3: a merge key takes a mapping", id="a merged number"),
        pytest.param("a:\n  <<: [{b: 1}, 5]\n", "2:3: a merge key takes a mapping", id="a merged list with a number"),
    ],
)
def test_an_error_is_reported_at_its_line_and_column(text: str | bytes, start: str) -> None:
    found = faults_of(text)
    assert found
    assert found[0].startswith(start)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("a:\n\tb: 1\n", "indent with spaces, not with tabs", id="a tab"),
        pytest.param("a: b: c\n", "check the indentation, and quote text that contains a colon", id="two colons"),
        pytest.param("a: 1\nb\n", "write 'key:'", id="a key without a colon"),
        pytest.param("a: *b\n", "an anchor must precede its alias", id="an alias of nothing"),
        pytest.param("a:\n  - 1\n b: 2\n", "check the indentation", id="wrong indentation"),
        pytest.param('a: "\\q"\n', "", id="nothing to say"),
        pytest.param("a: 1\n---\nb: 1", "keep one document per file, or pass several files", id="two documents"),
    ],
)
def test_common_errors_have_a_hint(text: str, hint: str) -> None:
    faults = Faults()
    read_yaml(text, "a.yaml", faults)
    assert faults.all[0].hint == hint


def test_a_second_document_is_an_error_even_if_empty() -> None:
    (fault,) = faults_of("a: 1\n---\n")
    assert fault.endswith("a second document starts here")


def test_all_duplicate_keys_are_reported() -> None:
    assert len(faults_of("a: 1\na: 2\nb:\n  c: 1\n  c: 2\na: 3\n")) == 3


def test_the_first_of_two_duplicate_keys_is_kept() -> None:
    assert read_yaml("a: 1\na: 2\n", "a.yaml", Faults()).text("a") is None
    assert read_yaml("a: x\na: y\n", "a.yaml", Faults()).text("a") == "x"


def test_an_alias_has_the_value_of_its_anchor() -> None:
    assert read("a: &x [1, 2]\nb: *x\nc: &y text\nd: *y\n") == {"a": [1, 2], "b": [1, 2], "c": "text", "d": "text"}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("<<: *x\nc: 3", {"a": 1, "b": 2, "c": 3}, id="a mapping"),
        pytest.param("<<: *x\na: 9", {"a": 9, "b": 2}, id="own keys win"),
        pytest.param("a: 9\n<<: *x", {"a": 9, "b": 2}, id="own keys win in any order"),
        pytest.param("<<: [*x, {b: 5, c: 6}]", {"a": 1, "b": 2, "c": 6}, id="earlier mappings win"),
        pytest.param("<<: {d: 4}", {"d": 4}, id="a mapping written there"),
    ],
)
def test_a_merge_key_adds_the_keys_of_other_mappings(text: str, data: object) -> None:
    indented = "".join(f"  {line}\n" for line in text.splitlines())
    assert read(f"base: &x {{a: 1, b: 2}}\nuse:\n{indented}")["use"] == data


def test_merged_values_have_the_origin_where_they_are_written() -> None:
    tree = read_yaml("base: &x\n  a: 1\nuse:\n  <<: *x\n", "f", Faults())
    use = tree.get("use")
    assert isinstance(use, Entries)
    assert str(use.entries["a"].origin) == "f:2:3"


def test_the_expansion_of_aliases_is_bounded() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    (fault,) = faults_of(bomb)
    assert fault.endswith(f"more than {MAX_NODES} values")


def test_the_expansion_of_merge_keys_is_bounded() -> None:
    bomb = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 9))
    assert any(fault.endswith(f"more than {MAX_NODES} values") for fault in faults_of(bomb))


@pytest.mark.parametrize("depth", [200, 260, 330, 450, 3000, 20_000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ("{a: ", "}")], ids=["lists", "mappings"])
def test_deep_nesting_is_read_or_reported(start: str, end: str, depth: int) -> None:
    faults = Faults()
    tree = read_yaml(f"k: {start * depth}1{end * depth}", "f", faults)
    assert bool(faults) != bool(tree.entries)


def test_nesting_that_is_too_deep_is_reported_as_such() -> None:
    assert faults_of("k: " + "[" * 3000)[0].endswith("this YAML is nested too deeply")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param("pool", "1:1", id="a key"),
        pytest.param("pool.list[0]", "3:7", id="an item"),
        pytest.param("pool.list[1].x", "4:9", id="a key in an item"),
        pytest.param("flow.b", "5:13", id="a key in braces"),
    ],
)
def test_each_value_has_its_position_and_path(path: str, place: str) -> None:
    tree = read_yaml("pool:\n  list:\n    - 1\n    - { x: 2 }\nflow: {a: 1,b: 2}\n", "f", Faults())
    assert {origin.path: f"{origin.line}:{origin.column}" for origin in _origins(tree)}[path] == place


def _origins(node: object) -> list[Origin]:
    if isinstance(node, Entries):
        return [o for entry in node.entries.values() for o in (entry.origin, *_origins(entry.node))]
    if isinstance(node, Items):
        return [o for item in node.items for o in (item.origin, *_origins(item))]
    return []


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.binary(), YAML_LIKE))
def test_the_reader_never_raises(text: str | bytes) -> None:
    faults = Faults()
    assert isinstance(read_yaml(text, "f", faults), Entries)
    assert all(fault.origin.line >= 1 and fault.origin.column >= 1 for fault in faults.all)


@given(st.text())
def test_any_text_is_a_scalar(text: str) -> None:
    assert isinstance(read_scalar(text), str | int | float | bool | None)
