"""Reports reloads of the configuration: in the log, as metrics, and as lines of `/readyz?verbose`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge


class ReloadResult(Protocol):
    """The result of a reload."""

    @property
    def at(self) -> float:
        """Seconds since the epoch."""

    @property
    def done(self) -> bool:
        """Whether the loaded configuration is in effect."""

    @property
    def changed(self) -> bool:
        """Whether it differs from the previous one."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why the reload failed."""

    @property
    def warnings(self) -> Sequence[object]:
        """Likely mistakes in the configuration, which do not prevent its use."""


class ReloadLog:
    """Records each reload."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._log = structlog.get_logger("pointsman.reload")
        self._last: ReloadResult | None = None
        self._count = Counter(
            "pointsman_config_reloads", "Reloads of the configuration, by result.", ["result"], registry=registry
        )
        self._successful = Gauge(
            "pointsman_config_last_reload_successful", "Whether the last reload was successful.", registry=registry
        )
        self._at = Gauge(
            "pointsman_config_last_reload_success_timestamp_seconds",
            "Time of the last successful reload, or of the start.",
            registry=registry,
        )
        self._successful.set(1)
        self._at.set_to_current_time()

    def record(self, result: ReloadResult) -> None:
        """Logs and counts a reload."""
        self._last = result
        self._count.labels("refused" if not result.done else "applied" if result.changed else "unchanged").inc()
        self._successful.set(result.done)
        for warning in result.warnings:
            self._log.warning("configuration warning", warning=str(warning))
        if result.done:
            self._at.set(result.at)
            self._log.info("configuration reloaded", result="applied" if result.changed else "unchanged")
        else:
            self._log.error(
                "configuration reload failed, the last good configuration stays in effect",
                reasons=list(result.reasons),
            )

    def remarks(self) -> Sequence[str]:
        """Lines about the last reload, if it failed."""
        if self._last is None or self._last.done:
            return ()
        at = datetime.fromtimestamp(self._last.at, UTC).isoformat(timespec="seconds")
        message = f"[!] configuration reload at {at} failed, the last good configuration stays in effect:"
        return (message, *self._last.reasons)
