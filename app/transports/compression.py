"""Decompresses bodies, up to a limit."""

from __future__ import annotations

import zlib

from app.domain.errors import BadRequestError, BodyTooLargeError

MAX_MEMBERS = 16
"""Members of a gzip body: each costs a copy of the rest."""

_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def decompressed(body: bytes, encoding: str, *, limit: int) -> bytes:
    """The decompressed body; empty if `encoding`, a value of `content-encoding`, is not supported.

    Raises `BadRequestError` if the body is corrupt, `BodyTooLargeError` if it decompresses to more than `limit` bytes.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW:
        return b""
    plain = b""
    for _ in range(MAX_MEMBERS):
        decompressor = zlib.decompressobj(_WINDOW[encoding])
        try:
            plain += decompressor.decompress(body, limit + 1 - len(plain))
        except zlib.error:
            raise BadRequestError(f"the body does not match its content-encoding {encoding!r}") from None
        if len(plain) > limit:
            raise BodyTooLargeError(limit)
        if not decompressor.eof:
            raise BadRequestError(f"the body, of content-encoding {encoding!r}, is truncated")
        body = decompressor.unused_data.lstrip(b"\0")  # gzip pads with zeros
        if not body:
            return plain
    raise BadRequestError(f"the body, of content-encoding {encoding!r}, has more than {MAX_MEMBERS} members")
