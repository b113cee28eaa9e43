"""What a message's headers say of its length, read so that no other reader can take it for another length."""

from __future__ import annotations

import re

from app.domain.errors import BadRequestError, UnsupportedError
from app.transports.http.codec.events import Fields

_MOST_DIGITS = 18
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOTHING: frozenset[bytes] = frozenset()
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


def length_of(lengths: list[bytes], codings: list[bytes]) -> tuple[int | None, bool]:
    """The body's length and whether it is chunked, by all values of `content-length` and `transfer-encoding`.

    Raises `BadRequestError` when they contradict each other or are no lengths, `UnsupportedError` for another coding.
    """
    if not lengths and not codings:
        return None, False
    if len(lengths) + len(codings) > 1:
        what = "has both a content-length and a transfer-encoding" if lengths and codings else "says its length twice"
        raise BadRequestError(f"it {what}")
    if lengths:
        if not lengths[0].isdigit() or len(lengths[0]) > _MOST_DIGITS:
            raise BadRequestError("its content-length is no number")
        return int(lengths[0]), False
    if codings[0].lower() != b"chunked":
        raise UnsupportedError("its transfer-encoding is not chunked")
    return None, True


def keeps_alive(connection: frozenset[bytes], *, http_1_1: bool) -> bool:
    """Whether another message may follow, by the words of the `connection` header (RFC 9112, section 9.3)."""
    return b"close" not in connection and (http_1_1 or b"keep-alive" in connection)


def is_field(name: bytes, value: bytes) -> bool:
    """Whether both are made of the characters that a header may have (RFC 9110, section 5)."""
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


def tokens_of(headers: Fields, name: bytes) -> frozenset[bytes]:
    """The members of a header that is a list of words, in lower case."""
    values = [value for key, value in headers if key == name]
    if not values:
        return _NOTHING
    return frozenset([word for part in b",".join(values).lower().split(b",") if (word := part.strip(b" \t"))])
