"""How far the response to one attempt has come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.domain.outcome import Ending, Outcome
from app.parsing.responses import ResponseReader


class Progress:
    """The times and the content of a response, so far. Times are in seconds since the request arrived."""

    __slots__ = ("bytes", "exact", "first_token", "head", "reader", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        self.head: float | None = None
        self.first_token: float | None = None
        self.exact = True
        """Whether `first_token` is the time of content, and not that of the head."""
        self.bytes = 0
        self.reader: ResponseReader | None = None
        """Reads the body; None for an error response, and before the response begins."""

    def relay(self, chunks: Sequence[bytes]) -> bool:
        """Adds chunks of the body. Returns whether the first content is among them, or before them and not timed."""
        reader = self.reader
        for chunk in chunks:
            self.bytes += len(chunk)
            if reader is not None:
                reader.feed(chunk)
        return self.first_token is None and reader is not None and reader.content > 0

    def outcome(self, ending: Ending, duration: float, attempts: int, *, final: bool) -> Outcome:
        """The outcome of the attempt, which took `duration`."""
        reader = self.reader
        if reader is not None:
            reader.end()
        return Outcome(
            ending,
            duration,
            final,
            self.status,
            self.head,
            self.first_token,
            self.exact,
            self._time_per_output_token(duration),
            attempts,
            self.bytes,
            None if reader is None else reader.usage,
        )

    def _time_per_output_token(self, duration: float) -> float | None:
        reader = self.reader
        if reader is None or not reader.streamed or not self.exact or self.first_token is None:
            return None
        reported = None if reader.usage is None else reader.usage.completion_tokens
        tokens = reader.content if reported is None else reported
        return (duration - self.first_token) / (tokens - 1) if tokens > 1 else None


def ending_of(kind: type[BaseException] | None) -> Ending:
    """How an attempt ended that an exception of this class ended, None if none did."""
    if kind is None:
        return Ending.COMPLETED
    if issubclass(kind, asyncio.CancelledError | ConnectionError):
        return Ending.CLIENT_LEFT
    return Ending.UPSTREAM_FAILED
