"""The cases of the Go pickers' configuration loader, each decided as `tests/data/go_table.yaml` says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.catalogue.catalogue import Catalogue
from app.catalogue.loading import PluginTypeError
from app.checking import Checked
from app.planning.plan import ProfilePlan
from app.settings.errors import ConfigurationError, Fault, Faults
from app.settings.layers import Sources
from app.settings.reader import read_yaml
from app.settings.tree import plain
from containers.application import catalogue, check

DATA = Path(__file__).parents[1] / "data"
TABLE: Mapping[str, Any] = yaml.safe_load((DATA / "go_table.yaml").read_text(encoding="utf-8"))
ROWS_BY_LETTER = {"R": 26, "I": 21, "S": 23, "F": 35, "D": 7, "P": 11, "L": 21, "W": 19, "A": 5, "H": 4}
IN_A_ROW = {"row", "title", "config", "outcome", "expect", "at", "says", "needs", "needs_feature", "differs", "cases"}
IN_EXPECT = {
    "profiles", "profile_picker", "discovery", "parsers", "sources", "plugins", "without", "warnings", "no_warnings",
    "parameters", "bands", "effective",
}  # fmt: skip

Case = Mapping[str, Any]


def cases_of(row: Case) -> Sequence[Case]:
    """The configurations of a row, each with what the row says of all."""
    return [{**row, **case} for case in row.get("cases", [{}])]


def params() -> Iterator[Any]:
    """A parameter for each configuration; one that needs what is not there yet is expected to fail."""
    types = catalogue()
    for row in TABLE["rows"]:
        cases = cases_of(row)
        for number, case in enumerate(cases, 1):
            missing = [case["needs_feature"]] if "needs_feature" in case else []
            missing += [name for name in case.get("needs", ()) if not has(types, name)]
            mark = pytest.mark.xfail(bool(missing), reason=f"needs {', '.join(missing)}", raises=AssertionError)
            name = row["row"] if len(cases) == 1 else f"{row['row']}.{number}"
            yield pytest.param(case, id=f"{name} {case['title']}", marks=mark)


def has(types: Catalogue, name: str) -> bool:
    """Whether there is a plugin type of this name."""
    try:
        types.find(name)
    except PluginTypeError:
        return False
    return True


def decided(text: str | None) -> tuple[Checked | None, Sequence[Fault]]:
    """The configuration, None if it has errors; and all its faults."""
    try:
        checked = check(Sources(text=text))
    except ConfigurationError as error:
        return None, error.faults
    return checked, checked.configuration.faults.all


@pytest.mark.parametrize("case", [*params()])
def test_a_row_of_the_table_is_decided_as_it_says(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "go_table")
    checked, faults = decided(case["config"])
    if case["outcome"] == "fault":
        there = [str(fault) for fault in faults if fault.severity == "error" and fault.origin.line == case["at"]]
        assert len(there) == 1, list(map(str, faults))
        assert all(words in there[0] for words in case["says"]), there
    else:
        assert checked is not None, list(map(str, faults))
        expect_of(checked, case.get("expect", {}))


def expect_of(checked: Checked, expect: Mapping[str, Any]) -> None:
    """What must hold of a configuration that loads."""
    whole = planned(checked)
    assert {key: whole[key] for key in expect if key in whole} == {key: expect[key] for key in expect if key in whole}
    assert set(expect.get("plugins", ())) <= set(checked.plan.plugins)
    assert set(expect.get("without", ())).isdisjoint(checked.plan.plugins)
    warnings = [str(fault) for fault in checked.configuration.faults.warnings]
    assert all(any(words in warning for warning in warnings) for words in expect.get("warnings", ())), warnings
    unwanted = expect.get("no_warnings", [])
    assert not [line for line in warnings if unwanted is True or any(words in line for words in unwanted)]
    shown = plain(read_yaml(checked.effective(), "show", Faults()))
    assert_within(expect.get("effective", {}), shown)
    assert_within(expect.get("parameters", {}), {p["name"]: p.get("parameters", {}) for p in shown["plugins"]})
    bands = (shown.get("flowControl") or {}).get("priorityBands", ())
    assert_within(expect.get("bands", {}), {band["priority"]: band for band in bands})


def planned(checked: Checked) -> Mapping[str, Any]:
    """What is compared as a whole."""
    plan = checked.plan
    return {
        "profiles": {profile.name: described(profile) for profile in plan.profiles},
        "profile_picker": plan.profile_picker,
        "discovery": plan.discovery,
        "parsers": list(plan.parsers),
        "sources": [[source.source, list(source.extractors)] for source in plan.sources],
    }


def described(profile: ProfilePlan) -> Mapping[str, Any]:
    """A profile as the table writes it: what is empty is left out."""
    scorers = [[name, weight] for name, weight in profile.scorers]
    parts = {"filters": list(profile.filters), "scorers": scorers, "picker": profile.picker}
    return {key: part for key, part in parts.items() if part}


def assert_within(expected: Any, found: Any) -> None:
    """Mappings have at least what is expected, None standing for what is not there; all else is equal."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        for key, value in expected.items():
            assert_within(value, found.get(key))
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for pair in zip(expected, found, strict=True):
            assert_within(*pair)
    else:
        assert found == expected


def test_each_row_of_the_table_is_there_once() -> None:
    there = [row["row"] for row in (*TABLE["rows"], *TABLE["elsewhere"])]
    assert sorted(there) == sorted(
        f"{letter}{n}" for letter, last in ROWS_BY_LETTER.items() for n in range(1, last + 1)
    )


def test_a_row_says_nothing_that_is_not_looked_at() -> None:
    cases = [case for row in TABLE["rows"] for case in cases_of(row)]
    assert not {key for case in cases for key in case} - IN_A_ROW
    assert not {key for case in cases for key in case.get("expect", ())} - IN_EXPECT
    assert {case["outcome"] for case in cases} == {"loads", "fault"}


def test_a_row_that_no_configuration_can_express_says_why() -> None:
    assert all(row["why"] for row in TABLE["elsewhere"])
