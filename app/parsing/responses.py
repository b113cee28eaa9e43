"""Reads responses while they are relayed: when their content begins, and the token usage."""

from __future__ import annotations

from app.domain.usage import Usage
from app.parsing.event_streams import EventStreamReader
from app.parsing.usage import usage_of

LARGEST_BODY = 1024 * 1024
"""Maximum size of a JSON response in bytes. The usage of a larger one is unknown."""


class BodyReader:
    """Reads a response that is no event stream, or a compressed one. Its content begins with its first byte."""

    __slots__ = ("_chunks", "_size", "content", "usage")

    streamed = False
    """The response is an event stream that can be read."""

    def __init__(self, *, json: bool) -> None:
        """`json`: the body is a JSON object, which may have the usage."""
        self.content = 0
        """1 once the body has begun."""
        self.usage: Usage | None = None
        """The usage, known at the end."""
        self._chunks: list[bytes] | None = [] if json else None
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Adds a chunk of the body."""
        if data:
            self.content = 1
            if self._chunks is not None:
                self._size += len(data)
                if self._size <= LARGEST_BODY:
                    self._chunks.append(data)
                else:
                    self._chunks = None

    def end(self) -> None:
        """Ends the body."""
        if self._chunks:
            self.usage = usage_of(b"".join(self._chunks))
            self._chunks = None


ResponseReader = BodyReader | EventStreamReader


def response_reader(path: str, content_type: str, content_encoding: str) -> ResponseReader:
    """The reader for the response, with these headers, to a request to `path`."""
    plain = not content_encoding or content_encoding == "identity"
    if plain and is_event_stream(content_type):
        return EventStreamReader(only_deltas=path.rstrip("/").endswith("/responses"))
    return BodyReader(json=plain and _media_type(content_type) == "application/json")


def is_event_stream(content_type: str) -> bool:
    """Whether a response of this type consists of server-sent events."""
    return _media_type(content_type) == "text/event-stream"


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
