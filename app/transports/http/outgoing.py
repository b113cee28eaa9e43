"""A request on its way to an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from app.transports.http.codec.encoding import encode_last_chunk, encode_request
from app.transports.http.codec.events import Field, Fields

_CHUNKED: Field = (b"transfer-encoding", b"chunked")


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request as endpoints get it."""

    method: str
    target: str
    headers: list[Field]
    """Without the host and what says how long the body is."""
    body: bytes
    trailers: Fields = ()
    says_length: bool = True
    """Whether an empty body is announced as such."""

    def encoded(self, host: bytes) -> tuple[bytes, ...]:
        """What goes over the wire. The body stands by itself, for it may be large."""
        headers = [(b"host", host), *self.headers]
        if self.trailers:
            headers.append(_CHUNKED)
            head = encode_request(self.method, self.target, headers)
            if not self.body:
                return head, encode_last_chunk(self.trailers)
            return head, b"%x\r\n" % len(self.body), self.body, b"\r\n", encode_last_chunk(self.trailers)
        if self.body or self.says_length:
            headers.append((b"content-length", b"%d" % len(self.body)))
        head = encode_request(self.method, self.target, headers)
        return (head, self.body) if self.body else (head,)
