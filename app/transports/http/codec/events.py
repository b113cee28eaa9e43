"""What the decoders tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.errors import RoutingError

Field = tuple[bytes, bytes]
"""A header or trailer: its name in lower case, its value without white space around it."""

Fields = Sequence[Field]
"""In the order they came; a name may stand more than once."""


class RequestHead(NamedTuple):
    """The first line and the headers of a request."""

    method: str
    target: str
    """Path and query as the client wrote them, beginning with a slash; a proxy's absolute form without its host."""
    headers: Fields
    content_length: int | None
    """Bytes of the body; None without one and when it is chunked."""
    chunked: bool
    keep_alive: bool
    """Whether the client would send another request on this connection."""
    http_1_1: bool
    expects_continue: bool
    """Whether the client waits to be told to send its body."""


class ResponseHead(NamedTuple):
    """The first line and the headers of an answer that is final: no 1xx."""

    status: int
    reason: bytes
    headers: Fields
    content_length: int | None
    """Bytes of the body as announced, which an answer to HEAD or a 304 does not have."""
    bodiless: bool
    """Whether it ends with its head, whatever its headers say."""


class End(NamedTuple):
    """The end of a message. For an answer: whether the connection may be used again."""

    trailers: Fields = ()
    reusable: bool = True


class Refused(NamedTuple):
    """The bytes can't be taken as a request. Nothing comes after it."""

    error: RoutingError


Event = RequestHead | ResponseHead | bytes | End | Refused
"""`bytes` are a piece of the body, without any framing."""
