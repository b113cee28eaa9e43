"""Reads compressed bodies, within bounds."""

from __future__ import annotations

import zlib

from app.domain.errors import BadRequestError, BodyTooLargeError

MOST_MEMBERS = 16
"""Pieces that a gzip body may be made of: each costs a copy of what is left."""

_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def decompressed(body: bytes, encoding: str, *, limit: int) -> bytes:
    """What a compressed body holds; one in an encoding that is not known here gives nothing.

    Raises `BadRequestError` for a broken one, `BodyTooLargeError` if it inflates to more than `limit` bytes.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW:
        return b""
    plain = b""
    for _ in range(MOST_MEMBERS):
        inflater = zlib.decompressobj(_WINDOW[encoding])
        try:
            plain += inflater.decompress(body, limit + 1 - len(plain))
        except zlib.error:
            raise BadRequestError(f"the body is not what its content-encoding {encoding!r} says") from None
        if len(plain) > limit:
            raise BodyTooLargeError(limit)
        if not inflater.eof:
            raise BadRequestError(f"the body, of content-encoding {encoding!r}, is cut off")
        body = inflater.unused_data.lstrip(b"\0")  # gzip pads with zeros
        if not body:
            return plain
    raise BadRequestError(f"the body, of content-encoding {encoding!r}, is in more than {MOST_MEMBERS} pieces")
