"""A client's request while it is received."""

from __future__ import annotations

from app.domain.errors import RoutingError
from app.transports.http.codec.events import Fields, RequestHead


class IncomingRequest:
    """One request of a client. It is served when it is complete or refused."""

    __slots__ = ("error", "head", "pieces", "size", "trailers", "whole")

    def __init__(self, head: RequestHead | None, error: RoutingError | None) -> None:
        self.head = head
        """None if it could not be read."""
        self.error = error
        """Why the request is refused; None if it is not."""
        self.pieces: list[bytes] = []
        self.size = 0
        """Bytes of the body received so far."""
        self.trailers: Fields = ()
        self.whole = False
        """Whether the end of the request has been read. A refused request need not have been read to its end."""

    @property
    def ready(self) -> bool:
        """Whether the request is complete or refused."""
        return self.whole or self.error is not None

    def take_body(self) -> bytes:
        """The body, which is not kept: a second call returns nothing."""
        chunks, self.pieces = self.pieces, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
