"""What the standalone router allows its clients. The settings of these names have this shape."""

from __future__ import annotations

from typing import Protocol

from app.transports.admission import Limits


class HttpLimits(Limits, Protocol):
    """Bounds on what clients may send."""

    @property
    def header_bytes(self) -> int:
        """Longest request head, request line included."""


class ClientTimeouts(Protocol):
    """Timeouts for clients, in seconds."""

    @property
    def header(self) -> float:
        """For a whole request head, from its first byte."""

    @property
    def body(self) -> float:
        """For a whole request body."""

    @property
    def keep_alive(self) -> float:
        """For the next request on a connection."""

    @property
    def idle(self) -> float:
        """For the client to read some of its response."""
