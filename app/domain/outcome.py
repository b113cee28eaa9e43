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
    head: float | None = None
    """Time to the response head, which engines may send long before the first token."""
    first_token: float | None = None
    """Time to the first content of the response. None for error responses."""
    first_token_exact: bool = True
    """False if the proxy does not pass on bodies as they arrive, so that `first_token` is the time of the head."""
    time_per_output_token: float | None = None
    """Mean time between two tokens of an event stream, None if it has fewer than two or the first is not exact."""
    attempts: int = 1
    response_bytes: int = 0
    usage: Usage | None = None
    """Token usage as reported by the engine, None if it reports none."""
