"""Calls the plugins that observe requests. An observer's failure is reported and never reaches a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from app.domain.decision import Decision, PluginFault
from app.domain.errors import PluginError, RoutingError
from app.domain.named import Named
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest
from app.extension.requests import OnFinished, OnFirstToken, OnRefused, OnScheduled

P = TypeVar("P")

Report = Callable[[PluginFault], None]


class Observers:
    """All observers of one configuration, by what they observe."""

    def __init__(
        self, plugins: Iterable[Named[Any]] = (), process: Iterable[Named[Any]] = (), *, report: Report
    ) -> None:
        """`plugins`, and the observers of the `process` after them, implement any of the four protocols, or none."""
        named = (*plugins, *process)
        self.report = report
        self.on_scheduled: Sequence[Named[OnScheduled]] = _of(named, OnScheduled)
        self.on_first_token: Sequence[Named[OnFirstToken]] = _of(named, OnFirstToken)
        self.on_finished: Sequence[Named[OnFinished]] = _of(named, OnFinished)
        self.on_refused: Sequence[Named[OnRefused]] = _of(named, OnRefused)

    def scheduled(self, request: InferenceRequest, decision: Decision) -> None:
        """A decision was made."""
        for name, observer in self.on_scheduled:
            try:
                observer.on_scheduled(request, decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self.report(PluginFault(name, "OnScheduled", error))

    def first_token(self, request: InferenceRequest, decision: Decision) -> None:
        """The first content of the response arrived."""
        for name, observer in self.on_first_token:
            try:
                observer.on_first_token(request, decision)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self.report(PluginFault(name, "OnFirstToken", error))

    def finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """An attempt ended."""
        for name, observer in self.on_finished:
            try:
                observer.on_finished(request, decision, outcome)
            except Exception as error:  # noqa: BLE001 - an observer never breaks a request
                self.report(PluginFault(name, "OnFinished", error))

    def refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """The router responds itself, with an error."""
        if isinstance(error, PluginError):
            self.report(PluginFault(error.plugin, "decision", error.cause))
        for name, observer in self.on_refused:
            try:
                observer.on_refused(request, error)
            except Exception as failure:  # noqa: BLE001 - an observer never breaks a request
                self.report(PluginFault(name, "OnRefused", failure))


def with_profile_picker(plugins: Sequence[Named[Any]], profile_picker: Any) -> Sequence[Named[Any]]:
    """All plugins, with the profile picker, or what a test put in its place, as the last one."""
    picker = profile_picker if isinstance(profile_picker, Named) else Named("profile_picker", profile_picker)
    return (*(one for one in plugins if one.plugin is not picker.plugin), picker)


def _of(named: Sequence[Named[Any]], point: type[P]) -> tuple[Named[P], ...]:
    return tuple(one for one in named if isinstance(one.plugin, point))
