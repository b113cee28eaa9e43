"""The length of a message by its headers, read so strictly that no other party can arrive at another length."""

from __future__ import annotations

import re

from app.domain.errors import BadRequestError, UnsupportedError
from app.transports.http.codec.events import Fields

_MAX_DIGITS = 18
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NO_TOKENS: frozenset[bytes] = frozenset()
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")


def length_of(lengths: list[bytes], codings: list[bytes]) -> tuple[int | None, bool]:
    """The body's length and whether it is chunked, by all values of `content-length` and `transfer-encoding`.

    Raises `BadRequestError` if they contradict each other or are invalid, `UnsupportedError` for any other coding.
    """
    if not lengths and not codings:
        return None, False
    if len(lengths) + len(codings) > 1:
        found = "both" if lengths and codings else "more than one"
        raise BadRequestError(f"expected one content-length or transfer-encoding header, found {found}")
    if lengths:
        if not lengths[0].isdigit() or len(lengths[0]) > _MAX_DIGITS:
            raise BadRequestError(f"content-length must be a number of at most {_MAX_DIGITS} digits")
        return int(lengths[0]), False
    if codings[0].lower() != b"chunked":
        raise UnsupportedError("the only supported transfer-encoding is chunked")
    return None, True


def keeps_alive(connection: frozenset[bytes], *, http_1_1: bool) -> bool:
    """Whether another message may follow, by the tokens of the `connection` header (RFC 9112, section 9.3)."""
    return b"close" not in connection and (http_1_1 or b"keep-alive" in connection)


def is_field(name: bytes, value: bytes) -> bool:
    """Whether both consist of characters that are valid in a header (RFC 9110, section 5)."""
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


def tokens_of(headers: Fields, name: bytes) -> frozenset[bytes]:
    """The members of a header that is a list of tokens, in lower case."""
    values = [value for key, value in headers if key == name]
    if not values:
        return _NO_TOKENS
    return frozenset([token for part in b",".join(values).lower().split(b",") if (token := part.strip(b" \t"))])
