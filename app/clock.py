"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """The monotonic clock of the machine."""

    def now(self) -> float:
        """Seconds since some fixed point in time."""
        return time.monotonic()
