"""Time outside of tests."""

from __future__ import annotations

import time


class SystemClock:
    """The monotonic clock of the machine."""

    def now(self) -> float:
        """Seconds; the zero means nothing."""
        return time.monotonic()
