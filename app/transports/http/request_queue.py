"""The requests of a client's connection that wait for their turn."""

from __future__ import annotations

from collections import deque

from app.transports.http.incoming import IncomingRequest

READ_AHEAD = 16
"""Waiting requests above which reading from the connection pauses."""

READ_AHEAD_BYTES = 256 * 1024
"""Bytes of their bodies above which it pauses."""

MAX_QUEUED = 128
"""Maximum number of waiting requests. A single read can bring more than `READ_AHEAD`."""


class RequestQueue(deque[IncomingRequest]):
    """Requests in the order in which they came. The last one may still be incomplete."""

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        """Whether reading should pause."""
        return len(self) > READ_AHEAD or sum(incoming.size for incoming in self) > READ_AHEAD_BYTES
