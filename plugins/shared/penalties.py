"""Seconds that failing endpoints are set back: an endpoint that fails at once must not look idle."""

from __future__ import annotations

FIRST = 1.0
"""Seconds after the first failure; each further one doubles them."""

LONGEST = 60.0


class Penalties:
    """A penalty per failing endpoint. It halves each time its own length has passed."""

    def __init__(self) -> None:
        self._failing: dict[str, tuple[float, float]] = {}

    def failed(self, name: str, now: float) -> None:
        """A request failed there."""
        seconds, _ = self._failing.get(name, (0.0, 0.0))
        self._failing[name] = (min(max(2.0 * seconds, FIRST), LONGEST), now)

    def worked(self, name: str) -> None:
        """A request succeeded there."""
        if self._failing:
            self._failing.pop(name, None)

    def of(self, name: str, now: float) -> float:
        """Seconds to add to what is expected of the endpoint."""
        seconds, since = self._failing.get(name, (0.0, 0.0))
        return seconds * 0.5 ** ((now - since) / seconds) if seconds else 0.0

    def __contains__(self, name: str) -> bool:
        return name in self._failing

    def __len__(self) -> int:
        return len(self._failing)
