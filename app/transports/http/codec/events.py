"""The events that the decoders produce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.domain.errors import RoutingError

Field = tuple[bytes, bytes]
"""A header or trailer: its lower-case name, and its value without surrounding whitespace."""

Fields = Sequence[Field]
"""In order of arrival. A name may occur more than once."""


class RequestHead(NamedTuple):
    """The request line and headers."""

    method: str
    target: str
    """Path and query as sent, starting with a slash. The scheme and host of an absolute target are removed."""
    headers: Fields
    content_length: int | None
    """Bytes of the body. None if there is no such header, as with a chunked body."""
    chunked: bool
    keep_alive: bool
    """Whether another request may follow on this connection."""
    http_1_1: bool
    expects_continue: bool
    """Whether the client waits for `100 Continue` before it sends the body."""


class ResponseHead(NamedTuple):
    """The status line and headers of a final response, not a 1xx."""

    status: int
    reason: bytes
    headers: Fields
    content_length: int | None
    """Bytes of the body as announced. A response to HEAD, or a 304, has no body all the same."""
    bodiless: bool
    """Whether the response ends with its head, whatever its headers say."""


class End(NamedTuple):
    """The end of a message. `reusable`, for responses: whether the connection can take another request."""

    trailers: Fields = ()
    reusable: bool = True


class Refused(NamedTuple):
    """The bytes are not a request that can be served. No event follows."""

    error: RoutingError


Event = RequestHead | ResponseHead | bytes | End | Refused
"""`bytes` are a part of the body, without framing."""
