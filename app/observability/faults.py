"""Tells of plugins' failures: each is counted, and logged at most once a minute per plugin."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from app.domain.decision import PluginFault
from app.extension.services import Clock

LOG_EVERY = 60.0
"""Seconds between two lines about one plugin at one extension point."""


class FaultReporter:
    """What the router reports plugin failures to."""

    def __init__(self, clock: Clock, count: Callable[[PluginFault], None]) -> None:
        self._clock = clock
        self._count = count
        self._logged: dict[tuple[str, str], float] = {}
        self._log = structlog.get_logger("pointsman.plugins")

    def __call__(self, fault: PluginFault) -> None:
        """Counts `fault`, and logs it unless one like it was logged within the minute."""
        self._count(fault)
        key, now = (fault.plugin, fault.extension_point), self._clock.now()
        if now - self._logged.get(key, -LOG_EVERY) < LOG_EVERY:
            return
        self._logged[key] = now
        cause = fault.cause
        self._log.error(
            "plugin failed",
            plugin=fault.plugin,
            extension_point=fault.extension_point,
            cause=cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}",
            exc_info=cause if isinstance(cause, Exception) else None,
        )
