"""Reads the answers of model servers."""

from __future__ import annotations

from app.domain.errors import RoutingError
from app.transports.http.codec.body_decoder import Body, Chunked, Sized, TooLongError, UntilClose
from app.transports.http.codec.events import End, Event, ResponseHead
from app.transports.http.codec.framing import keeps_alive, length_of, tokens_of
from app.transports.http.codec.heads import HEAD_END, GrammarError, StatusLine, check_unfinished, read_response_head

_NO_BODY = frozenset((204, 304))
_INTERIM = 100
_SWITCHING = 101
_FINAL = 200


class ResponseError(Exception):
    """What came is no answer in HTTP/1.1, or was not asked for."""


class ResponseDecoder:
    """What an endpoint sends, as events: per request one `ResponseHead`, pieces of the body as `bytes`, one `End`.

    Interim answers (1xx) are passed over. More than was asked for makes the connection of no further use.
    """

    def __init__(self, *, header_bytes: int) -> None:
        """`header_bytes` bounds a head, first line included, and trailers."""
        self._limit = header_bytes
        self._held = bytearray()
        self._body: Body | None = None
        self._awaited = self._head_only = self._reusable = False

    def expect(self, *, head_only: bool = False) -> None:
        """The next answer is to a request of now; with `head_only` to one of method HEAD."""
        self._awaited, self._head_only = True, head_only

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes. Raises `ResponseError`, after which the decoder is of no use; what was read
        before the fault is lost."""
        if data and not self._awaited:
            raise ResponseError("it sent data that nothing had asked for")
        events: list[Event] = []
        try:
            while data and self._awaited:
                data = self._read_head(data, events) if self._body is None else self._read_body(data, events)
        except GrammarError as error:
            raise ResponseError(f"its answer is not valid HTTP/1.1: {error}") from error
        except TooLongError:
            raise ResponseError(f"the head of its answer is larger than {self._limit} bytes") from None
        if data:
            events[-1] = End(self._trailers(events), reusable=False)
        return events

    def end(self) -> list[Event]:
        """The events that the end of the connection completes. Raises `ResponseError` if an answer is cut off by it."""
        if not self._awaited:
            return []
        if not isinstance(self._body, UntilClose):
            raise ResponseError("it closed the connection")
        self._awaited = False
        return [End((), reusable=False)]

    def close(self) -> None:
        """Ends it: nothing more is awaited."""
        self._awaited = False
        self._held = bytearray()

    @staticmethod
    def _trailers(events: list[Event]) -> tuple[tuple[bytes, bytes], ...]:
        last = events[-1]
        return tuple(last.trailers) if isinstance(last, End) else ()

    def _read_head(self, data: bytes, events: list[Event]) -> bytes:
        """What comes after the head, if that is whole."""
        held, before = self._held, len(self._held)
        if before:
            held += data
            end = held.find(HEAD_END, max(before - 3, 0))
        else:
            end = data.find(HEAD_END)
        if (end + 4 if end >= 0 else before + len(data)) > self._limit:
            raise TooLongError
        if end < 0:
            self._hold(data, before)
            return b""
        if before:
            data = bytes(held)
            self._held = bytearray()
        self._read_line(read_response_head(data[: end + 4]), events)
        return data[end + 4 :]

    def _hold(self, data: bytes, before: int) -> None:
        """Keeps what is no whole head yet, if it can become one."""
        if not before:
            self._held += data
        if not b"HTTP/".startswith(self._held[:5]):
            raise GrammarError("it does not begin as an answer does")
        check_unfinished(self._held, before)

    def _read_line(self, line: StatusLine, events: list[Event]) -> None:
        if line.version not in ("1.1", "1.0"):
            raise ResponseError(f"it answered in HTTP/{line.version}")
        if line.status < _INTERIM or line.status == _SWITCHING:
            raise ResponseError(f"it answered with status {line.status}, which was not asked for")
        if line.status >= _FINAL:
            self._begin(line, events)

    def _begin(self, line: StatusLine, events: list[Event]) -> None:
        status, reason, version, headers = line
        http_1_1 = version == "1.1"
        lengths, codings, connection = [], [], False
        for name, value in headers:
            if name == b"content-length":
                lengths.append(value)
            elif name == b"transfer-encoding":
                codings.append(value)
            elif name == b"connection":
                connection = True
        try:
            length, chunked = length_of(lengths, codings)
        except RoutingError as error:
            raise ResponseError(f"its answer can't be read: {error}") from None
        tokens = tokens_of(headers, b"connection") if connection else frozenset()
        self._reusable = keeps_alive(tokens, http_1_1=http_1_1) and (http_1_1 or not chunked)
        bodiless = self._head_only or status in _NO_BODY
        events.append(ResponseHead(status, reason, headers, length, bodiless))
        if bodiless or length == 0:
            self._end(events)
        elif chunked:
            self._body = Chunked(self._limit)
        else:
            self._body = UntilClose() if length is None else Sized(length)

    def _read_body(self, data: bytes, events: list[Event]) -> bytes:
        """What comes after the body, if that is whole."""
        assert self._body is not None  # noqa: S101 - asked before
        rest = self._body.read(data, events)
        if rest is None:
            return b""
        self._end(events)
        return rest

    def _end(self, events: list[Event]) -> None:
        events.append(End(self._body.trailers if self._body else (), self._reusable))
        self._body = None
        self._awaited = False
