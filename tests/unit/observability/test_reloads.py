"""Reports of reloads: in the log, as metrics, and as remarks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from app.observability.reloads import ReloadLog


class Result(NamedTuple):
    """The result of a reload."""

    at: float
    done: bool
    changed: bool = False
    reasons: Sequence[str] = ()
    warnings: Sequence[object] = ()


APPLIED = Result(1e9, done=True, changed=True)
UNCHANGED = Result(1e9, done=True)
FAILED = Result(1e9, done=False, reasons=["a.yaml:1:1: unknown key 'x'", "another"])
REMARK = "[!] configuration reload at 2001-09-09T01:46:40+00:00 failed, the last good configuration stays in effect:"


class Log(ReloadLog):
    """A log with access to its metrics and lines."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    def lines(self, *results: Result) -> list[Any]:
        """The lines logged for the results."""
        with capture_logs() as lines:
            for result in results:
                self.record(result)
        return lines

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"pointsman_config_{name}", labels)


def test_a_start_counts_as_a_success() -> None:
    log = Log()
    assert (log.value("last_reload_successful"), log.remarks()) == (1, ())
    assert (log.value("last_reload_success_timestamp_seconds") or 0) > 1e9


@pytest.mark.parametrize(
    ("results", "successful", "counts"),
    [
        pytest.param([APPLIED], 1, {"applied": 1}, id="applied"),
        pytest.param([UNCHANGED], 1, {"unchanged": 1}, id="unchanged"),
        pytest.param([FAILED], 0, {"refused": 1}, id="failed"),
        pytest.param([FAILED, FAILED, UNCHANGED], 1, {"refused": 2, "unchanged": 1}, id="failed, then unchanged"),
        pytest.param([APPLIED, FAILED], 0, {"applied": 1, "refused": 1}, id="applied, then failed"),
    ],
)
def test_reloads_are_counted_by_result_and_the_last_one_is_reported(
    results: list[Result], successful: float, counts: dict[str, float]
) -> None:
    log = Log()
    log.lines(*results)
    found = {label: log.value("reloads_total", result=label) for label in ("applied", "unchanged", "refused")}
    assert log.value("last_reload_successful") == successful
    assert {label: count for label, count in found.items() if count is not None} == counts


def test_a_failed_reload_does_not_change_the_time_of_the_last_success() -> None:
    log = Log()
    log.lines(APPLIED, Result(2e9, done=False))
    assert log.value("last_reload_success_timestamp_seconds") == 1e9


@pytest.mark.parametrize(("result", "text"), [(APPLIED, "applied"), (UNCHANGED, "unchanged")])
def test_a_reload_is_one_line_with_its_result(result: Result, text: str) -> None:
    assert Log().lines(result) == [{"event": "configuration reloaded", "log_level": "info", "result": text}]


def test_a_failed_reload_is_one_line_with_all_reasons() -> None:
    (line,) = Log().lines(FAILED)
    assert line["event"] == "configuration reload failed, the last good configuration stays in effect"
    assert (line["log_level"], line["reasons"]) == ("error", list(FAILED.reasons))


def test_each_warning_is_a_line() -> None:
    warning = "a.yaml:3:5: warning: probably not meant"
    first, second = Log().lines(Result(1e9, done=True, changed=True, warnings=[warning]))
    assert (first["event"], first["log_level"], first["warning"]) == ("configuration warning", "warning", warning)
    assert (second["log_level"], second["result"]) == ("info", "applied")


@pytest.mark.parametrize(
    ("results", "remarks"),
    [
        pytest.param(
            [FAILED],
            (REMARK, "a.yaml:1:1: unknown key 'x'", "another"),
            id="failed",
        ),
        pytest.param([FAILED, UNCHANGED], (), id="failed, then unchanged"),
        pytest.param([APPLIED], (), id="applied"),
    ],
)
def test_a_failed_reload_is_a_remark_until_one_succeeds(results: list[Result], remarks: tuple[str, ...]) -> None:
    log = Log()
    log.lines(*results)
    assert tuple(log.remarks()) == remarks
