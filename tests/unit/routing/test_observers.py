"""Observers: each sees what it implements, in order, and a failing one affects nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.domain.decision import PluginFault
from app.domain.errors import NoEndpointsError, PluginError
from app.domain.named import Named
from app.routing.observers import Observers, with_profile_picker
from pointsman.testing import make_decision, make_outcome, make_request
from tests.unit.routing.given import Broken, Diary

REQUEST, DECISION, OUTCOME, ERROR = make_request(), make_decision("a"), make_outcome(), NoEndpointsError()

POINTS: dict[str, tuple[str, Callable[[Observers], None], tuple[Any, ...]]] = {
    "OnScheduled": ("on_scheduled", lambda to: to.scheduled(REQUEST, DECISION), (REQUEST, DECISION)),
    "OnFirstToken": ("on_first_token", lambda to: to.first_token(REQUEST, DECISION), (REQUEST, DECISION)),
    "OnFinished": ("on_finished", lambda to: to.finished(REQUEST, DECISION, OUTCOME), (REQUEST, DECISION, OUTCOME)),
    "OnRefused": ("on_refused", lambda to: to.refused(REQUEST, ERROR), (REQUEST, ERROR)),
}
"""By extension point: the method, the call that leads to it, and its arguments."""

EACH = pytest.mark.parametrize("point", POINTS)


def observers(*plugins: Any, faults: list[PluginFault] | None = None) -> Observers:
    named = [Named(f"observer-{row}", plugin) for row, plugin in enumerate(plugins)]
    return Observers(named, report=([] if faults is None else faults).append)


def only(method: str, seen: list[Any]) -> Any:
    """An observer with this method alone."""
    return type("Only", (), {method: lambda _, *given: seen.append(given)})()


@EACH
def test_an_observer_sees_what_it_implements_and_nothing_else(point: str) -> None:
    seen: list[Any] = []
    method, _, given = POINTS[point]
    observing = observers(only(method, seen))
    for _, call, _ in POINTS.values():
        call(observing)
    assert seen == [given]


@EACH
def test_plugins_that_observe_nothing_are_ignored(point: str) -> None:
    faults: list[PluginFault] = []
    POINTS[point][1](observers(object(), faults=faults))
    POINTS[point][1](observers(faults=faults))
    assert faults == []


@EACH
def test_observers_are_called_in_order(point: str) -> None:
    entries: list[Any] = []
    POINTS[point][1](observers(Diary("1 ", entries), object(), Diary("2 ", entries)))
    assert [entry[0] for entry in entries] == ["1", "2"]


@EACH
def test_the_process_s_observers_come_after_the_plugins(point: str) -> None:
    entries: list[Any] = []
    process, plugin = (Named(name, Diary(name, entries)) for name in ("process ", "plugin "))
    POINTS[point][1](Observers([plugin], [process], report=lambda _: None))
    assert [entry.partition(" ")[0] for entry in entries] == ["plugin", "process"]


@EACH
def test_an_observer_s_failure_is_reported_and_the_next_one_is_called(point: str) -> None:
    faults: list[PluginFault] = []
    diary = Diary()
    POINTS[point][1](observers(Broken(), diary, faults=faults))
    assert [(fault.plugin, fault.extension_point, type(fault.cause)) for fault in faults] == [
        ("observer-0", point, LookupError)
    ]
    assert len(diary.entries) == 1


def test_a_plugin_that_made_a_decision_fail_is_reported_even_without_observers() -> None:
    faults: list[PluginFault] = []
    cause = LookupError("oh")
    observers(faults=faults).refused(REQUEST, PluginError("picker", cause))
    assert faults == [PluginFault("picker", "decision", cause)]


# -- the profile picker among the plugins

ONE, TWO, PICKER = (Named(name, Diary()) for name in ("one", "two", "picker"))


@pytest.mark.parametrize(
    ("plugins", "picker", "expected"),
    [
        pytest.param([ONE, TWO], PICKER, [ONE, TWO, PICKER], id="its own instance"),
        pytest.param([ONE, PICKER, TWO], PICKER, [ONE, TWO, PICKER], id="an instance with another role too"),
        pytest.param([], PICKER, [PICKER], id="no other plugin"),
        pytest.param([ONE], TWO.plugin, [ONE, Named("profile_picker", TWO.plugin)], id="without a name"),
    ],
)
def test_the_profile_picker_is_the_last_plugin_and_there_only_once(
    plugins: list[Named[Any]], picker: Any, expected: list[Named[Any]]
) -> None:
    assert list(with_profile_picker(plugins, picker)) == expected
