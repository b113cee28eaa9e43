"""Decodes the responses of model servers."""

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
    """The bytes are not an HTTP/1.1 response, or no response was due. In the text, "it" is the endpoint."""


class ResponseDecoder:
    """Turns an endpoint's bytes into events: per request one `ResponseHead`, the body as `bytes`, and one `End`.

    Interim responses (1xx) are skipped. If data follows the response, its `End` is not `reusable`.
    """

    def __init__(self, *, header_bytes: int) -> None:
        """`header_bytes` limits a head, including its first line, and the trailers."""
        self._limit = header_bytes
        self._buffer = bytearray()
        self._body: Body | None = None
        self._expecting = self._head_only = self._reusable = False

    def expect(self, *, head_only: bool = False) -> None:
        """A request was sent, so a response is due. `head_only`: its method was HEAD."""
        self._expecting, self._head_only = True, head_only

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes.

        Raises `ResponseError`: the decoder can't be used any more, and what it read from `data` is lost.
        """
        if data and not self._expecting:
            raise ResponseError("it sent data without a request")
        events: list[Event] = []
        try:
            while data and self._expecting:
                data = self._read_head(data, events) if self._body is None else self._read_body(data, events)
        except GrammarError as error:
            raise ResponseError(f"its response is not valid HTTP/1.1: {error}") from error
        except TooLongError:
            raise ResponseError(f"the head or trailers of its response are larger than {self._limit} bytes") from None
        if data:
            events[-1] = End(self._trailers(events), reusable=False)
        return events

    def end(self) -> list[Event]:
        """The events that the end of the connection completes. Raises `ResponseError` if it cuts off a response."""
        if not self._expecting:
            return []
        if not isinstance(self._body, UntilClose):
            raise ResponseError("it closed the connection")
        self._expecting = False
        return [End((), reusable=False)]

    def close(self) -> None:
        """Stops decoding: no response is due any more."""
        self._expecting = False
        self._buffer = bytearray()

    @staticmethod
    def _trailers(events: list[Event]) -> tuple[tuple[bytes, bytes], ...]:
        last = events[-1]
        return tuple(last.trailers) if isinstance(last, End) else ()

    def _read_head(self, data: bytes, events: list[Event]) -> bytes:
        """Returns the bytes after the head; none if it is incomplete."""
        buffer, before = self._buffer, len(self._buffer)
        if before:
            buffer += data
            end = buffer.find(HEAD_END, max(before - 3, 0))
        else:
            end = data.find(HEAD_END)
        if (end + 4 if end >= 0 else before + len(data)) > self._limit:
            raise TooLongError
        if end < 0:
            self._keep(data, before)
            return b""
        if before:
            data = bytes(buffer)
            self._buffer = bytearray()
        self._read_line(read_response_head(data[: end + 4]), events)
        return data[end + 4 :]

    def _keep(self, data: bytes, before: int) -> None:
        """Buffers an incomplete head, unless it can't become a valid one."""
        if not before:
            self._buffer += data
        if not b"HTTP/".startswith(self._buffer[:5]):
            raise GrammarError("a response must start with HTTP/")
        check_unfinished(self._buffer, before)

    def _read_line(self, line: StatusLine, events: list[Event]) -> None:
        if line.version not in ("1.1", "1.0"):
            raise ResponseError(f"it responded in HTTP/{line.version}, expected HTTP/1.1")
        if line.status < _INTERIM or line.status == _SWITCHING:
            raise ResponseError(f"it responded with the unexpected status {line.status}")
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
            raise ResponseError(f"the length of its response is unclear: {error}") from None
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
        """Returns the bytes after the body; none if it is incomplete."""
        assert self._body is not None  # noqa: S101 - checked by the caller
        rest = self._body.read(data, events)
        if rest is None:
            return b""
        self._end(events)
        return rest

    def _end(self, events: list[Event]) -> None:
        events.append(End(self._body.trailers if self._body else (), self._reusable))
        self._body = None
        self._expecting = False
