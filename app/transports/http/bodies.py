"""Reads a client's body, within bounds of size and time."""

from __future__ import annotations

import asyncio
import zlib

from aiohttp import web

from app.domain.errors import BadRequestError, BodyTooLargeError

MOST_MEMBERS = 16
"""Pieces that a gzip body may be made of: each costs a copy of what is left."""

_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


async def read_body(request: web.BaseRequest, *, limit: int, timeout: float) -> bytes:  # noqa: ASYNC109
    """The body as it came. Raises `BodyTooLargeError` over `limit` bytes, `BadRequestError` if it takes too long."""
    if (request.content_length or 0) > limit:
        raise BodyTooLargeError(limit)
    if not request.body_exists:
        return b""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout):
            while piece := await request.content.readany():
                size += len(piece)
                if size > limit:
                    raise BodyTooLargeError(limit)
                pieces.append(piece)
    except TimeoutError:
        raise BadRequestError(f"the body did not come within {timeout:g} s") from None
    return b"".join(pieces)


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
