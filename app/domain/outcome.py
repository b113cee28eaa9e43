"""The outcome of a routed request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.usage import Usage


class Ending(StrEnum):
    """Why an attempt ended."""

    COMPLETED = "completed"
    CLIENT_LEFT = "client-left"
    UPSTREAM_FAILED = "upstream-failed"
    """The endpoint failed before it responded, or aborted its response."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt. Times are in seconds since the request arrived; None means not reached."""

    ending: Ending
    duration: float
    final: bool = True
    """Whether the request ended with this attempt. If not, it is retried or rejected."""
    status: int | None = None
    """HTTP status of the response from the endpoint."""
    first_byte: float | None = None
    attempts: int = 1
    response_bytes: int = 0
    usage: Usage | None = None
    """Token usage as reported by the engine, None if it reports none."""
