"""Raw requests, and gRPC messages built by hand."""

from __future__ import annotations

import json
from typing import Any

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.extension import Parser


def raw_of(path: str, body: Any = b"", method: str = "POST", **fields: Any) -> RawRequest:
    """A request with `body`: bytes, or data to encode as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RawRequest("r1", path, data, method, **{"headers": {"x-a": "1"}, "size": len(data), **fields})


def outcome_of(parser: Parser | Any, raw: RawRequest) -> InferenceRequest | BadRequestError:
    """The parsed request, or the error that rejects it. Other errors are raised."""
    try:
        return parser.parse(raw)
    except BadRequestError as error:
        return error


def varint(number: int) -> bytes:
    """Seven bits per byte, lowest first; all bytes but the last have the high bit set."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def field(number: int, value: int | bytes) -> bytes:
    """A field of a message: a varint, or length-prefixed bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def framed(message: bytes, *, compressed: int = 0) -> bytes:
    """A gRPC body: one byte for the compressed flag, four for the length, the message."""
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def ids(*tokens: int) -> bytes:
    """Token ids as in a prompt: four bytes each, little-endian."""
    return b"".join(token.to_bytes(4, "little") for token in tokens)
