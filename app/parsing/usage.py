"""Reads what an answer cost out of its body: a JSON object, or server-sent events as they come.

The fields are those of the OpenAI API (`usage`, in its Responses API within `response`), of Anthropic's (`usage`, at
the start of a stream within `message`) and of SGLang's own (`meta_info`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from app.domain.usage import Usage
from app.parsing.json_body import count_of

LONGEST_EVENT = 1024 * 1024
"""Bytes of a line that is waited for; what is in a longer one is not read."""

LARGEST_BODY = 1024 * 1024
"""Bytes of a JSON answer that are kept to be read; of a larger one the usage is not known."""

_NOTHING = Usage()
_HINTS = (b'"usage"', b'"meta_info"')


class UsageReader:
    """The usage of one answer, of which the pieces are given as they come, split anywhere."""

    __slots__ = ("_begun", "_kept", "_overflowed", "_size", "_streamed", "usage")

    def __init__(self, *, streamed: bool) -> None:
        """`streamed`: the answer is one of server-sent events, and not a JSON object."""
        self.usage: Usage | None = None
        """What is known so far."""
        self._streamed = streamed
        self._begun = b""
        self._kept: list[bytes] = []
        self._size = 0
        self._overflowed = False

    def feed(self, data: bytes) -> None:
        """More of the body."""
        if self._streamed:
            self._read_lines(data)
        elif data and not self._overflowed:
            self._size += len(data)
            self._kept.append(data)
            self._overflowed = self._size > LARGEST_BODY
            if self._overflowed:
                self._kept.clear()

    def end(self) -> Usage | None:
        """There is no more of it. The usage, if any was told."""
        if self._streamed:
            self._read_lines(b"\n")
        elif self._kept:
            self._read(b"".join(self._kept))
            self._kept.clear()
        return self.usage

    def _read_lines(self, data: bytes) -> None:
        lines, newline, rest = (self._begun + data if self._begun else data).rpartition(b"\n")
        if newline and self._overflowed:  # what is left of the line that was too long
            lines, self._overflowed = lines.partition(b"\n")[2], False
        self._begun = rest
        if len(rest) > LONGEST_EVENT:
            self._begun, self._overflowed = b"", True
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
        told = usage_in(fields)
        if told is not None:
            self.usage = told if self.usage is None else self.usage.updated(told)


def usage_reader(content_type: str, content_encoding: str) -> UsageReader | None:
    """Who reads the usage of an answer with these headers; None for one that tells none, or is compressed."""
    streamed = content_type.startswith("text/event-stream")
    readable = streamed or content_type.startswith("application/json")
    return UsageReader(streamed=streamed) if readable and not content_encoding else None


def usage_in(fields: Any) -> Usage | None:
    """The usage that an answer, or an event of one, tells; None if it tells none."""
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
