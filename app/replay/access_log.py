"""Our own access log as a trace: JSON lines of the event `request`.

A line says when the request ended and how long it took. With `observability.logging.prefixes` it also has the hashes of
the prompt's beginning, by which prompts share blocks; without, they share nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.replay.trace import Segment, TraceRequest

EVENT = "request"


def is_access_log(fields: Mapping[str, Any]) -> bool:
    """Whether the first line of a trace is one of our log."""
    return "event" in fields and "timestamp" in fields


class AccessLogReader:
    """Reads the lines of one log. Lines of other events, and requests without token counts, are no requests."""

    def __init__(self) -> None:
        self._unknown = -1

    def __call__(self, fields: Mapping[str, Any]) -> TraceRequest | None:
        """A line of the log. Raises `ValueError` that says what was found and what was expected."""
        if fields.get("event") != EVENT or fields.get("duration_ms") is None:
            return None
        tokens = fields.get("prompt_tokens") or fields.get("estimated_prompt_tokens")
        if not tokens:
            return None
        ended = _time_of(fields.get("timestamp"))
        arrival = ended - _milliseconds(fields.get("duration_ms")) / 1000
        prompt = self._prompt(_whole(tokens, "prompt_tokens"), fields.get("prefix") or [])
        model = fields.get("model")
        return TraceRequest(arrival, prompt, _output_tokens(fields), str(model or "demo"))

    def _prompt(self, tokens: int, prefix: object) -> tuple[Segment, ...]:
        """The segments that are known by their hashes, and a rest that no other prompt has."""
        segments = _segments(prefix)
        known = sum(segment.tokens for segment in segments)
        if known > tokens:  # estimated from bytes, while the engine counts tokens
            segments = tuple([Segment(max(one.tokens * tokens // known, 1), one.content) for one in segments])
            known = sum(segment.tokens for segment in segments)
        if known >= tokens:
            return segments
        self._unknown -= 1
        return (*segments, Segment(tokens - known, self._unknown))


def _output_tokens(fields: Mapping[str, Any]) -> int:
    """As counted by the engine, else from the time that the response took and the time of each token."""
    if fields.get("output_tokens"):
        return _whole(fields["output_tokens"], "output_tokens")
    each, first = fields.get("tpot_ms"), fields.get("ttft_ms")
    if not each or first is None:
        return 1
    return round((_milliseconds(fields.get("duration_ms")) - _milliseconds(first)) / _milliseconds(each)) + 1


def _segments(prefix: object) -> tuple[Segment, ...]:
    expected = "'prefix' must be a list of [tokens, hash] pairs"
    if not isinstance(prefix, list):
        raise ValueError(f"{expected}, found {prefix!r:.60}")  # noqa: TRY004 - reported with the other errors
    segments = []
    for pair in prefix:
        try:
            tokens, content = pair
            segments.append(Segment(_whole(tokens, "prefix"), int(content, 16)))
        except (TypeError, ValueError):
            raise ValueError(f"{expected}, found {pair!r:.60} in it") from None
    return tuple(segments)


def _time_of(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        raise ValueError(f"'timestamp' must be an ISO 8601 time, found {text!r:.60}") from None


def _milliseconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"'duration_ms' must be a number of at least 0, found {value!r:.60}")
    return value


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name!r} must be a whole number of at least 1, found {value!r:.60}")
    return value
