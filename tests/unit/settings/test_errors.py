"""Faults: how they read, in which order they stand, and what they hint at."""

from __future__ import annotations

import pytest

from app.settings.errors import ConfigurationError, Fault, Faults, did_you_mean
from app.settings.tree import Origin

HERE = Origin("a.yaml", 2, 3, "pool.scrape")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        pytest.param(Fault(HERE, "wrong"), "a.yaml:2:3: pool.scrape: wrong", id="an error"),
        pytest.param(Fault(HERE, "wrong", "do so"), "a.yaml:2:3: pool.scrape: wrong; do so", id="with a hint"),
        pytest.param(Fault(HERE, "odd", severity="warning"), "a.yaml:2:3: warning: pool.scrape: odd", id="a warning"),
        pytest.param(Fault(Origin("--set a"), "wrong"), "--set a: wrong", id="without a line"),
    ],
)
def test_a_fault_says_where_what_and_what_to_do(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_a_fault_told_twice_is_there_once() -> None:
    faults = Faults()
    faults.error(HERE, "wrong")
    faults.error(HERE, "wrong")
    assert len(faults.all) == 1


def test_warnings_are_no_errors() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    assert not faults


def test_one_error_makes_faults_true() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    faults.error(HERE, "wrong")
    assert faults


def test_errors_and_warnings_can_be_had_apart() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    faults.error(HERE, "wrong")
    assert [f.message for f in faults.errors] == ["wrong"]
    assert [f.message for f in faults.warnings] == ["odd"]


def test_faults_of_one_source_stand_by_line_and_column() -> None:
    faults = Faults()
    for line, column in ((9, 1), (2, 8), (2, 3)):
        faults.error(Origin("a.yaml", line, column), "wrong")
    assert [str(f.origin) for f in faults.all] == ["a.yaml:2:3", "a.yaml:2:8", "a.yaml:9:1"]


def test_faults_of_several_sources_are_not_mixed() -> None:
    faults = Faults()
    for source, line in (("b", 5), ("a", 1), ("b", 1)):
        faults.error(Origin(source, line, 1), "wrong")
    assert [str(f.origin) for f in faults.all] == ["b:1:1", "b:5:1", "a:1:1"]


def test_a_configuration_error_lists_one_fault_a_line() -> None:
    error = ConfigurationError([Fault(HERE, "wrong"), Fault(Origin("--set a"), "odd")])
    assert str(error).splitlines() == ["a.yaml:2:3: pool.scrape: wrong", "--set a: odd"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        pytest.param("queue-scorr", "did you mean 'queue-scorer'?", id="a slip"),
        pytest.param("QUEUE-SCORER", "did you mean 'queue-scorer'?", id="other case"),
        pytest.param("zzz", "known: picker, queue-scorer", id="nothing like it"),
    ],
)
def test_a_hint_names_the_nearest_or_all(word: str, hint: str) -> None:
    assert did_you_mean(word, ["queue-scorer", "picker"]) == hint


def test_without_anything_known_there_is_no_hint() -> None:
    assert not did_you_mean("word", [])
