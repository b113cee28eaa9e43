"""Counts the requests that each endpoint has not finished."""

from __future__ import annotations


class InFlightCounts:
    """Requests per endpoint name, from the decision to the last byte."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.total = 0

    def count(self, endpoint: str, /) -> int:
        """Requests in flight to the endpoint of that name."""
        return self._counts.get(endpoint, 0)

    def enter(self, endpoint: str) -> None:
        """One more. Whoever calls this calls `leave` once."""
        self._counts[endpoint] = self._counts.get(endpoint, 0) + 1
        self.total += 1

    def leave(self, endpoint: str) -> None:
        """One less; an endpoint with none is forgotten, so that gone endpoints leave nothing behind."""
        left = self._counts[endpoint] - 1
        if left:
            self._counts[endpoint] = left
        else:
            del self._counts[endpoint]
        self.total -= 1
