"""YAML errors are reported where the mistake is, not where the parser failed."""

from __future__ import annotations

import pytest

from app.settings.errors import Faults
from app.settings.reader import read_yaml


def reported(text: str) -> list[str]:
    faults = Faults()
    read_yaml(text, "f", faults)
    return [str(fault) for fault in faults.all]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("profiles\n- one:\n", 1, id="the first line"),
        pytest.param("a: 1\nprofiles\n- one:\n", 2, id="a later line"),
        pytest.param("p:\n- one:\n  - name: x\n- two\n  - name: y\n", 4, id="an item of a list"),
        pytest.param(
            "p:\n- one:\n  - name: x\n- two\n  - y\n  - name: z\n", 4, id="several lines before the parser fails"
        ),
        pytest.param("a:\n  b\n    c: 1\n", 2, id="a key in a mapping"),
    ],
)
def test_a_key_without_a_colon_is_reported_at_its_line(text: str, line: int) -> None:
    (fault,) = reported(text)
    assert fault.startswith(f"f:{line}:")
    assert fault.endswith("there is no colon after a key; write 'key:'")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("- name: x\n   plugin: y\n", "f:2:10", id="below a plain value"),
        pytest.param('- name: "x"\n   plugin: y\n', "f:2:4", id="below a quoted value"),
        pytest.param("p:\n- a: 1\n  - b: 2\n", "f:3:3", id="a list below a value"),
        pytest.param("a: b: c\n", "f:1:5", id="two colons on a line"),
    ],
)
def test_wrong_indentation_is_reported_where_it_is(text: str, place: str) -> None:
    (fault,) = reported(text)
    assert fault.startswith(f"{place}: this is not YAML: ")
    assert "colon after a key" not in fault


@pytest.mark.parametrize("tag", ["int", "float", "bool", "null"])
def test_a_value_must_match_its_explicit_tag(tag: str) -> None:
    assert reported(f"a: !!{tag} word\n") == [
        f"f:1:1: a: the value does not match the tag tag:yaml.org,2002:{tag}; remove the tag"
    ]


@pytest.mark.parametrize("text", ["!!int 3", "!!float 3", "!!float 3.5", "!!bool true", "!!null null", "!!str 3"])
def test_a_matching_explicit_tag_is_accepted(text: str) -> None:
    assert reported(f"a: {text}\n") == []
