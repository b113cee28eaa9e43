"""The generated files are up to date, and the generated part of the defaults is what the settings say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from app.describing.defaults import COLUMN, MARK, WIDTH, own_sections, updated
from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.tree import plain

ROOT = Path(__file__).parents[3]
GENERATED = runpy.run_path(str(ROOT / "docs" / "generate.py"))["generated"]()


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == GENERATED[name], "run: make docs"


def test_all_sections_are_there_but_those_of_the_go_pickers() -> None:
    faults = Faults()
    sections = plain(read_yaml(own_sections(), "text", faults))
    assert not faults.all
    assert list(sections) == [
        "transports",
        "pool",
        "routing",
        "observability",
        "shutdown",
        "reload",
        "tune",
        "simulation",
    ]


def test_every_key_has_a_comment() -> None:
    assert not [line for line in own_sections().splitlines() if line and "# " not in line]


@pytest.mark.parametrize(
    "line",
    [
        "      bodyBytes: 64Mi           # Maximum size of a request body, also after decompression; a larger one gets 413",
        "  producerDeadline: 400ms       # Time for all fact producers together; decisions are made without facts that are late",
        "  decodeTokensPerSecond: 60     # Speed of generating a response, per request",
        '    caFile: ""                  # PEM file with the CA certificates to trust; if empty, the system\'s',
        '    allowFrom: [127.0.0.0/8, "::1"]  # Networks that may access `/debug` and `/-/reload`; other pages are open to all',
        "  endpoints: []                 # Static endpoints: name, address, port [scheme, metricsPort, engine, labels, enabled]",
    ],
    ids=["a quantity", "a duration", "a number", "text", "a list", "a list of mappings"],
)
def test_a_line_has_the_key_its_default_and_the_first_sentence_of_its_docstring(line: str) -> None:
    assert line in own_sections().splitlines()


def test_comments_are_aligned_and_no_line_is_too_long() -> None:
    lines = own_sections().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert [line for line in lines if line and line[COLUMN] != "#"] == [
        line for line in lines if len(line.partition("#")[0].rstrip()) > COLUMN - 2
    ]


def test_only_what_is_below_the_mark_is_replaced() -> None:
    assert updated(f"# head\n\n{MARK}old: part\n") == f"# head\n\n{MARK}\n{own_sections()}"


def test_without_the_mark_nothing_is_replaced() -> None:
    with pytest.raises(ValueError, match=r"the line '# The sections below are generated .* is missing"):
        updated("transports:\n")
