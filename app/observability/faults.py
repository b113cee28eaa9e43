"""Reports failures of plugins: counts each, and logs at most one per minute and plugin."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from app.domain.decision import PluginFault
from app.extension.services import Clock

LOG_EVERY = 60.0
"""Minimum number of seconds between two lines about one plugin at one extension point."""


class FaultReporter:
    """Receives plugin failures from the router."""

    def __init__(self, clock: Clock, count: Callable[[PluginFault], None]) -> None:
        self._clock = clock
        self._count = count
        self._logged: dict[tuple[str, str], float] = {}
        self._log = structlog.get_logger("pointsman.plugins")

    def __call__(self, fault: PluginFault) -> None:
        """Counts `fault`. Logs it unless one of the same plugin and extension point was logged in the last minute."""
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
