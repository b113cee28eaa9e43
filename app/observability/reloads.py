"""Tells how reloads went: in the log, as metrics, and as a line for `/readyz?verbose`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge


class Outcome(Protocol):
    """How a reload went."""

    @property
    def at(self) -> float:
        """Seconds since the epoch."""

    @property
    def done(self) -> bool:
        """Whether what was loaded holds now."""

    @property
    def changed(self) -> bool:
        """Whether it differs from what held before."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why it was refused."""

    @property
    def warnings(self) -> Sequence[object]:
        """What is probably not meant."""


class ReloadLog:
    """Is told of each reload."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._log = structlog.get_logger("pointsman.reload")
        self._last: Outcome | None = None
        self._count = Counter(
            "pointsman_config_reloads", "Reloads of the configuration, by result.", ["result"], registry=registry
        )
        self._successful = Gauge(
            "pointsman_config_last_reload_successful", "Whether the last reload was taken over.", registry=registry
        )
        self._at = Gauge(
            "pointsman_config_last_reload_success_timestamp_seconds",
            "When a configuration was last taken over, the start included.",
            registry=registry,
        )
        self._successful.set(1)
        self._at.set_to_current_time()

    def record(self, outcome: Outcome) -> None:
        """One reload, with its result."""
        self._last = outcome
        result = "refused" if not outcome.done else "taken over" if outcome.changed else "unchanged"
        self._count.labels(result.replace(" ", "_")).inc()
        self._successful.set(outcome.done)
        for warning in outcome.warnings:
            self._log.warning("configuration", warning=str(warning))
        if outcome.done:
            self._at.set(outcome.at)
            self._log.info("configuration reloaded", result=result)
        else:
            self._log.error("configuration not taken over, the last good one holds", reasons=list(outcome.reasons))

    def remarks(self) -> Sequence[str]:
        """What there is to say of the last reload, if it was refused."""
        if self._last is None or self._last.done:
            return ()
        at = datetime.fromtimestamp(self._last.at, UTC).isoformat(timespec="seconds")
        return (f"[!] the configuration of {at} was refused, the last good one holds:", *self._last.reasons)
