"""Failures of plugins: all are counted, few are logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog

from app.domain.decision import PluginFault
from app.observability.faults import FaultReporter

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from pointsman.testing import FakeClock

FAULT = PluginFault("queue", "Scorer", "it scored NaN")
OTHER = PluginFault("prefix", "Scorer", "it scored NaN")
ELSEWHERE = PluginFault("queue", "OnFinished", "it scored NaN")


@pytest.fixture
def lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """The lines logged."""
    with structlog.testing.capture_logs() as captured:
        yield captured


def reported(clock: FakeClock, *faults: PluginFault) -> list[PluginFault]:
    """Reports the faults; returns those counted."""
    counted: list[PluginFault] = []
    report = FaultReporter(clock, counted.append)
    for fault in faults:
        report(fault)
    return counted


def test_a_fault_is_counted_and_logged(clock: FakeClock, lines: list[Any]) -> None:
    assert reported(clock, FAULT) == [FAULT]
    (line,) = lines
    assert (line["event"], line["log_level"], line["plugin"]) == ("plugin failed", "error", "queue")
    assert (line["extension_point"], line["cause"]) == ("Scorer", "it scored NaN")


def test_an_exception_is_logged_with_its_kind_and_its_traceback(clock: FakeClock, lines: list[Any]) -> None:
    error = LookupError("no such thing")
    reported(clock, PluginFault("queue", "Scorer", error))
    assert (lines[0]["cause"], lines[0]["exc_info"]) == ("LookupError: no such thing", error)


def test_the_same_fault_within_a_minute_is_only_counted(clock: FakeClock, lines: list[Any]) -> None:
    assert reported(clock, FAULT, FAULT, FAULT) == [FAULT] * 3
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("other", "logged"),
    [
        pytest.param(OTHER, 2, id="another plugin"),
        pytest.param(ELSEWHERE, 2, id="another extension point"),
        pytest.param(PluginFault("queue", "Scorer", LookupError()), 1, id="another cause"),
    ],
)
def test_the_minute_is_per_plugin_and_extension_point(
    clock: FakeClock, lines: list[Any], other: PluginFault, logged: int
) -> None:
    reported(clock, FAULT, other)
    assert len(lines) == logged


@pytest.mark.parametrize(
    ("waits", "logged"),
    [
        pytest.param([59.9], 1, id="within the minute"),
        pytest.param([60.0], 2, id="after a minute"),
        pytest.param([59.9, 59.9], 2, id="a minute after the line, not after the last fault"),
        pytest.param([60.0, 60.0, 60.0], 4, id="once a minute"),
    ],
)
def test_it_is_logged_again_after_a_minute(clock: FakeClock, lines: list[Any], waits: list[float], logged: int) -> None:
    report = FaultReporter(clock, lambda _: None)
    report(FAULT)
    for wait in waits:
        clock.advance(wait)
        report(FAULT)
    assert len(lines) == logged
