"""Bounds on what clients of the standalone router may send, and how long is waited for them."""

from __future__ import annotations

from dataclasses import dataclass

from app.transports.admission import Limits


@dataclass(frozen=True, slots=True)
class HttpLimits(Limits):
    """Timeouts are in seconds."""

    header_bytes: int = 32768
    """Longest head, first line included."""
    header_timeout: float = 10.0
    """For a whole head, from its first byte."""
    body_timeout: float = 60.0
    """For a whole body."""
    keep_alive: float = 75.0
    """For the next request on a connection."""
    stall: float = 300.0
    """For a client to take some of what was sent to it."""
