"""How reloads are told of: in the log, as metrics, in a line for people."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from app.observability.reloads import ReloadLog
from app.reload import Outcome
from app.settings.errors import Fault
from app.settings.tree import Origin

TAKEN = Outcome(1e9, done=True, changed=True)
SAME = Outcome(1e9, done=True)
REFUSED = Outcome(1e9, done=False, reasons=["a.yaml:1:1: unknown key 'x'", "another"])


class Log(ReloadLog):
    """A log with its metrics and lines at hand."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    def tells(self, *outcomes: Outcome) -> list[Any]:
        with capture_logs() as lines:
            for outcome in outcomes:
                self.record(outcome)
        return lines

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"pointsman_config_{name}", labels)


def test_a_start_counts_as_a_success() -> None:
    log = Log()
    assert (log.value("last_reload_successful"), log.remarks()) == (1, ())
    assert (log.value("last_reload_success_timestamp_seconds") or 0) > 1e9


@pytest.mark.parametrize(
    ("outcomes", "successful", "counts"),
    [
        pytest.param([TAKEN], 1, {"taken_over": 1}, id="taken over"),
        pytest.param([SAME], 1, {"unchanged": 1}, id="unchanged"),
        pytest.param([REFUSED], 0, {"refused": 1}, id="refused"),
        pytest.param([REFUSED, REFUSED, SAME], 1, {"refused": 2, "unchanged": 1}, id="refused, then as before"),
        pytest.param([TAKEN, REFUSED], 0, {"taken_over": 1, "refused": 1}, id="taken over, then refused"),
    ],
)
def test_reloads_are_counted_by_result_and_the_last_one_is_told(
    outcomes: list[Outcome], successful: float, counts: dict[str, float]
) -> None:
    log = Log()
    log.tells(*outcomes)
    found = {result: log.value("reloads_total", result=result) for result in ("taken_over", "unchanged", "refused")}
    assert log.value("last_reload_successful") == successful
    assert {result: count for result, count in found.items() if count is not None} == counts


def test_the_time_of_the_last_success_is_told_and_a_refusal_does_not_move_it() -> None:
    log = Log()
    log.tells(TAKEN, Outcome(2e9, done=False))
    assert log.value("last_reload_success_timestamp_seconds") == 1e9


def test_a_refusal_is_one_line_with_all_reasons() -> None:
    (line,) = Log().tells(REFUSED)
    assert (line["log_level"], line["reasons"]) == ("error", list(REFUSED.reasons))


def test_warnings_have_a_line_each() -> None:
    warning = Fault(Origin("a.yaml", 3, 5), "probably not meant", severity="warning")
    first, second = Log().tells(Outcome(1e9, done=True, changed=True, warnings=[warning]))
    assert (first["log_level"], first["warning"]) == ("warning", "a.yaml:3:5: warning: probably not meant")
    assert (second["log_level"], second["result"]) == ("info", "taken over")


@pytest.mark.parametrize(
    ("outcomes", "remarks"),
    [
        pytest.param(
            [REFUSED],
            (
                "[!] the configuration of 2001-09-09T01:46:40+00:00 was refused, the last good one holds:",
                "a.yaml:1:1: unknown key 'x'",
                "another",
            ),
            id="refused",
        ),
        pytest.param([REFUSED, SAME], (), id="refused, then as before"),
        pytest.param([TAKEN], (), id="taken over"),
    ],
)
def test_a_refusal_is_a_remark_until_a_good_one_comes(outcomes: list[Outcome], remarks: tuple[str, ...]) -> None:
    log = Log()
    log.tells(*outcomes)
    assert tuple(log.remarks()) == remarks
