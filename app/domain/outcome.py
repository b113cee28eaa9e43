"""How a routed request ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.usage import Usage


class Ending(StrEnum):
    """Why an attempt ended."""

    COMPLETED = "completed"
    CLIENT_LEFT = "client-left"
    UPSTREAM_FAILED = "upstream-failed"
    """The endpoint failed before it answered, or broke off its answer."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt. Times are seconds since the request arrived; None means it never came that far."""

    ending: Ending
    duration: float
    final: bool = True
    """Whether the request ended with it. Else it is scheduled anew, or refused."""
    status: int | None = None
    """HTTP status of the endpoint's answer."""
    first_byte: float | None = None
    attempts: int = 1
    response_bytes: int = 0
    usage: Usage | None = None
    """What the engine says that the answer cost, if it says it."""
