"""Reads the token usage from a response body: a JSON object, or a stream of server-sent events.

Supports the fields of the OpenAI API (`usage`, within `response` in the Responses API), of the Anthropic API (`usage`,
within `message` at the start of a stream) and of SGLang's native API (`meta_info`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from app.domain.usage import Usage
from app.parsing.json_body import count_of

LONGEST_EVENT = 1024 * 1024
"""Maximum length of a line of a stream in bytes. Longer lines are skipped."""

LARGEST_BODY = 1024 * 1024
"""Maximum size of a JSON response in bytes. The usage of a larger one is unknown."""

_NOTHING = Usage()
_HINTS = (b'"usage"', b'"meta_info"')


class UsageReader:
    """Reads the usage of one response from its chunks, which may be split anywhere."""

    __slots__ = ("_chunks", "_overflowed", "_partial_line", "_size", "_streamed", "usage")

    def __init__(self, *, streamed: bool) -> None:
        """`streamed`: the response consists of server-sent events, not of one JSON object."""
        self.usage: Usage | None = None
        """The usage read so far."""
        self._streamed = streamed
        self._partial_line = b""
        self._chunks: list[bytes] = []
        self._size = 0
        self._overflowed = False

    def feed(self, data: bytes) -> None:
        """Adds a chunk of the body."""
        if self._streamed:
            self._read_lines(data)
        elif data and not self._overflowed:
            self._size += len(data)
            self._chunks.append(data)
            self._overflowed = self._size > LARGEST_BODY
            if self._overflowed:
                self._chunks.clear()

    def end(self) -> Usage | None:
        """Ends the body and returns its usage, None if it has none."""
        if self._streamed:
            self._read_lines(b"\n")
        elif self._chunks:
            self._read(b"".join(self._chunks))
            self._chunks.clear()
        return self.usage

    def _read_lines(self, data: bytes) -> None:
        lines, newline, rest = (self._partial_line + data if self._partial_line else data).rpartition(b"\n")
        if newline and self._overflowed:  # the rest of a line that was too long
            lines, self._overflowed = lines.partition(b"\n")[2], False
        self._partial_line = rest
        if len(rest) > LONGEST_EVENT:
            self._partial_line, self._overflowed = b"", True
        if any(hint in lines for hint in _HINTS):
            for line in lines.splitlines():
                if line.startswith(b"data:") and len(line) <= LONGEST_EVENT:
                    self._read(line[5:])

    def _read(self, text: bytes) -> None:
        if not any(hint in text for hint in _HINTS):
            return
        try:
            fields = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        found = usage_in(fields)
        if found is not None:
            self.usage = found if self.usage is None else self.usage.updated(found)


def usage_reader(content_type: str, content_encoding: str) -> UsageReader | None:
    """The reader for a response with these headers; None if it is compressed or of a type without usage."""
    streamed = content_type.startswith("text/event-stream")
    readable = streamed or content_type.startswith("application/json")
    return UsageReader(streamed=streamed) if readable and not content_encoding else None


def usage_in(fields: Any) -> Usage | None:
    """The usage in a response or an event of a stream, None if it has none."""
    if not isinstance(fields, dict):
        return None
    usage = next(
        (found for found in map(_usage_field, (fields, fields.get("response"), fields.get("message"))) if found), None
    )
    if usage is None:
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = count_of(details, "cached_tokens")
    read = Usage(
        count_of(usage, "prompt_tokens", "input_tokens"),
        count_of(usage, "completion_tokens", "output_tokens"),
        cached if cached is not None else count_of(usage, "cached_tokens", "cache_read_input_tokens"),
    )
    return None if read == _NOTHING else read


def _usage_field(fields: Any) -> Mapping[str, Any] | None:
    if not isinstance(fields, dict):
        return None
    found = fields.get("usage") or fields.get("meta_info")
    return found if isinstance(found, dict) else None
