"""Faults: their text, their order and their hints."""

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
def test_a_fault_says_where_it_is_what_is_wrong_and_what_to_do(fault: Fault, text: str) -> None:
    assert str(fault) == text


def test_a_fault_reported_twice_is_kept_once() -> None:
    faults = Faults()
    faults.error(HERE, "wrong")
    faults.error(HERE, "wrong")
    assert len(faults.all) == 1


def test_faults_with_only_warnings_are_false() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    assert not faults


def test_faults_with_an_error_are_true() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    faults.error(HERE, "wrong")
    assert faults


def test_errors_and_warnings_can_be_listed_separately() -> None:
    faults = Faults()
    faults.warn(HERE, "odd")
    faults.error(HERE, "wrong")
    assert [f.message for f in faults.errors] == ["wrong"]
    assert [f.message for f in faults.warnings] == ["odd"]


def test_faults_of_one_source_are_ordered_by_line_and_column() -> None:
    faults = Faults()
    for line, column in ((9, 1), (2, 8), (2, 3)):
        faults.error(Origin("a.yaml", line, column), "wrong")
    assert [str(f.origin) for f in faults.all] == ["a.yaml:2:3", "a.yaml:2:8", "a.yaml:9:1"]


def test_faults_are_grouped_by_source() -> None:
    faults = Faults()
    for source, line in (("b", 5), ("a", 1), ("b", 1)):
        faults.error(Origin(source, line, 1), "wrong")
    assert [str(f.origin) for f in faults.all] == ["b:1:1", "b:5:1", "a:1:1"]


def test_a_configuration_error_lists_one_fault_per_line() -> None:
    error = ConfigurationError([Fault(HERE, "wrong"), Fault(Origin("--set a"), "odd")])
    assert str(error).splitlines() == ["a.yaml:2:3: pool.scrape: wrong", "--set a: odd"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        pytest.param("queue-scorr", "did you mean 'queue-scorer'?", id="a typo"),
        pytest.param("QUEUE-SCORER", "did you mean 'queue-scorer'?", id="other case"),
        pytest.param("zzz", "known: picker, queue-scorer", id="nothing like it"),
    ],
)
def test_a_hint_names_the_closest_match_or_all(word: str, hint: str) -> None:
    assert did_you_mean(word, ["queue-scorer", "picker"]) == hint


def test_there_is_no_hint_if_nothing_is_known() -> None:
    assert not did_you_mean("word", [])
