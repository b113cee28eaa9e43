"""A client's request while it comes in."""

from __future__ import annotations

from app.domain.errors import RoutingError
from app.transports.http.codec.events import Fields, RequestHead


class IncomingRequest:
    """One request of a client: whole, or refused, before anybody serves it."""

    __slots__ = ("error", "head", "pieces", "size", "trailers", "whole")

    def __init__(self, head: RequestHead | None, error: RoutingError | None) -> None:
        self.head = head
        """None when not even that could be read."""
        self.error = error
        """Why it will not be served."""
        self.pieces: list[bytes] = []
        self.size = 0
        """Bytes of the body so far."""
        self.trailers: Fields = ()
        self.whole = False
        """Whether its end was read. What is refused may have more to come."""

    @property
    def ready(self) -> bool:
        """Whether it can be answered."""
        return self.whole or self.error is not None

    def take_body(self) -> bytes:
        """The body as it came, once."""
        pieces, self.pieces = self.pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
