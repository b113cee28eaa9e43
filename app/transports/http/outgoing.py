"""A request as it is sent to an endpoint."""

from __future__ import annotations

from dataclasses import dataclass

from app.transports.http.codec.encoding import encode_last_chunk, encode_request
from app.transports.http.codec.events import Field, Fields

_CHUNKED: Field = (b"transfer-encoding", b"chunked")


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that can be sent to any endpoint."""

    method: str
    target: str
    headers: list[Field]
    """Without `host`, `content-length` and `transfer-encoding`."""
    body: bytes
    trailers: Fields = ()
    says_length: bool = True
    """Whether an empty body is announced with `content-length: 0`."""

    def encoded(self, host: bytes) -> tuple[bytes, ...]:
        """The bytes to send. The body is an item of its own, uncopied, since it may be large."""
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
