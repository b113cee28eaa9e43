"""Reads the answers of model servers."""

from __future__ import annotations

import httptools

from app.domain.errors import RoutingError
from app.transports.http.codec.events import End, Event, Field, Fields, ResponseHead
from app.transports.http.codec.framing import length_of

_NO_BODY = frozenset((204, 304))


class AnswerError(Exception):
    """What came is no answer in HTTP/1.1, or is more than was asked for."""


class ResponseDecoder:
    """What an endpoint sends, as events: per request one `ResponseHead`, pieces of the body as `bytes`, one `End`.

    Interim answers (1xx) are passed over.
    """

    def __init__(self, *, header_bytes: int) -> None:
        """`header_bytes` bounds a head, first line included, and trailers."""
        self._limit = header_bytes
        self._events: list[Event] = []
        self._awaited = False
        self._head_only = False
        self._begin()
        self._parser = httptools.HttpResponseParser(self)

    def expect(self, *, head_only: bool = False) -> None:
        """The next answer is to a request of now; with `head_only` to one of method HEAD."""
        self._awaited, self._head_only = True, head_only

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes. Raises `AnswerError`, after which the decoder is of no use; what was read
        before the fault is lost."""
        if not self._awaited:
            raise AnswerError("it sent data that nothing had asked for")
        self._events = []
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._dropped:
                raise AnswerError(f"its answer is not valid HTTP/1.1: {_reason(error)}") from error
        if self._silent > self._limit:
            raise AnswerError(f"the head of its answer is larger than {self._limit} bytes")
        return self._events

    def end(self) -> list[Event]:
        """The events that the end of the connection completes. Raises `AnswerError` if an answer is cut off by it."""
        if not self._awaited:
            return []
        if not self._until_close:
            raise AnswerError("it closed the connection")
        self._awaited = False
        return [End((), reusable=False)]

    def close(self) -> None:
        """Ends it; it and its parser refer to each other."""
        self._awaited = False
        del self._parser

    def _begin(self) -> None:
        self._reason = b""
        self._fields: list[Field] = []
        self._silent = 0
        self._interim = self._until_close = self._dropped = False

    # -- called by the parser

    def on_message_begin(self) -> None:
        """An answer begins."""
        if not self._awaited:
            raise AnswerError("it sent more than one answer")
        self._begin()

    def on_status(self, reason: bytes) -> None:
        """A piece of the reason phrase."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        if status == 101:  # noqa: PLR2004
            raise AnswerError("it changed the protocol without being asked to")
        fields, self._fields = self._fields, []
        if self._silent > self._limit:  # most of it may be of the body
            self._measure(fields)
        self._silent = 0
        self._interim = 100 <= status < 200  # noqa: PLR2004
        if self._interim:
            return
        length, chunked = _length_of(fields)
        bodiless = self._head_only or status in _NO_BODY
        self._until_close = length is None and not chunked and not bodiless
        self._events.append(ResponseHead(status, self._reason, fields, length, bodiless))
        if self._head_only and (length or chunked):
            self._drop()

    def on_chunk_header(self) -> None:
        """A chunk's first line was read."""
        self._silent = 0

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self._silent = 0
        if not self._dropped:
            self._events.append(piece)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._interim or self._dropped:
            return
        if self._fields and self._silent > self._limit:
            self._measure(self._fields)
        self._awaited = False
        self._events.append(End(self._fields, self._parser.should_keep_alive()))

    def _drop(self) -> None:
        """The parser waits for a body that does not come: the answer ends here, and with it the connection."""
        self._dropped = True
        self._awaited = False
        self._events.append(End((), reusable=False))

    def _measure(self, fields: Fields) -> None:
        if len(self._reason) + sum(len(name) + len(value) + 4 for name, value in fields) > self._limit:
            raise AnswerError(f"the head of its answer is larger than {self._limit} bytes")


def _length_of(fields: Fields) -> tuple[int | None, bool]:
    lengths, codings = [], []
    for name, value in fields:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value)
    try:
        return length_of(lengths, codings)
    except RoutingError as error:
        raise AnswerError(str(error)) from None


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    return str(cause if isinstance(cause, AnswerError) else error).lower()
