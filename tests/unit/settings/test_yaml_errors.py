"""Texts that are no YAML: the place told is the slip's, not where the parser stumbled."""

from __future__ import annotations

import pytest

from app.settings.errors import Faults
from app.settings.reader import read_yaml


def told(text: str) -> list[str]:
    faults = Faults()
    read_yaml(text, "f", faults)
    return [str(fault) for fault in faults.all]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("profiles\n- one:\n", 1, id="the first line"),
        pytest.param("a: 1\nprofiles\n- one:\n", 2, id="a later line"),
        pytest.param("p:\n- one:\n  - name: x\n- two\n  - name: y\n", 4, id="an item of a list"),
        pytest.param("p:\n- one:\n  - name: x\n- two\n  - y\n  - name: z\n", 4, id="several lines before it shows"),
        pytest.param("a:\n  b\n    c: 1\n", 2, id="a key in a mapping"),
    ],
)
def test_a_key_without_a_colon_is_told_at_its_line(text: str, line: int) -> None:
    (fault,) = told(text)
    assert fault.startswith(f"f:{line}:")
    assert fault.endswith("a key has no colon after it; write 'key:'")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("- name: x\n   plugin: y\n", "f:2:10", id="below a plain value"),
        pytest.param('- name: "x"\n   plugin: y\n', "f:2:4", id="below a quoted value"),
        pytest.param("p:\n- a: 1\n  - b: 2\n", "f:3:3", id="a list below a value"),
        pytest.param("a: b: c\n", "f:1:5", id="two colons on a line"),
    ],
)
def test_a_wrong_indentation_is_told_where_it_is(text: str, place: str) -> None:
    (fault,) = told(text)
    assert fault.startswith(f"{place}: this is not YAML: ")
    assert "colon after it" not in fault


@pytest.mark.parametrize("tag", ["int", "float", "bool", "null"])
def test_an_explicit_tag_must_fit_its_value(tag: str) -> None:
    assert told(f"a: !!{tag} word\n") == [
        f"f:1:1: a: the tag tag:yaml.org,2002:{tag} does not fit what follows it; leave it out"
    ]


@pytest.mark.parametrize("text", ["!!int 3", "!!float 3", "!!float 3.5", "!!bool true", "!!null null", "!!str 3"])
def test_an_explicit_tag_that_fits_is_fine(text: str) -> None:
    assert told(f"a: {text}\n") == []
