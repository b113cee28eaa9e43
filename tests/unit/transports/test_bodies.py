"""Bodies: inflated within bounds, and read within bounds."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request

from app.domain.errors import BadRequestError, BodyTooLargeError
from app.transports.http.bodies import decompressed, read_body

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = b'{"model": "demo"}' * 10
LIMIT = 1000


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        pytest.param("", bytes, id="none"),
        pytest.param("identity", bytes, id="identity"),
        pytest.param(" Identity ", bytes, id="identity in capitals"),
        pytest.param("gzip", gzip.compress, id="gzip"),
        pytest.param("GZip ", gzip.compress, id="gzip in capitals"),
        pytest.param("x-gzip", gzip.compress, id="x-gzip"),
        pytest.param("deflate", zlib.compress, id="deflate"),
        pytest.param("gzip", lambda body: gzip.compress(body, 0), id="stored"),
        pytest.param(
            "gzip", lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:]), id="gzip in two members"
        ),
    ],
)
def test_a_compressed_body_is_inflated(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    assert decompressed(pack(BODY), encoding, limit=LIMIT) == BODY


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "deflate, br", "rot13"])
def test_an_encoding_that_is_not_known_gives_nothing(encoding: str) -> None:
    assert decompressed(BODY, encoding, limit=LIMIT) == b""


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", BODY, id="plain as gzip"),
        pytest.param("deflate", BODY, id="plain as deflate"),
        pytest.param("gzip", zlib.compress(BODY), id="deflate as gzip"),
        pytest.param("deflate", gzip.compress(BODY), id="gzip as deflate"),
        pytest.param("gzip", gzip.compress(BODY)[:-1], id="gzip cut off in its checksum"),
        pytest.param("gzip", gzip.compress(BODY)[:15], id="gzip cut off"),
        pytest.param("deflate", zlib.compress(BODY)[:-1], id="deflate cut off"),
        pytest.param("gzip", gzip.compress(BODY)[:-8] + b"\0" * 8, id="wrong checksum"),
        pytest.param("gzip", gzip.compress(BODY)[:5], id="only half a head"),
    ],
)
def test_a_broken_body_is_a_bad_request(encoding: str, body: bytes) -> None:
    with pytest.raises(BadRequestError, match=encoding):
        decompressed(body, encoding, limit=LIMIT)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("size", [pytest.param(LIMIT + 1, id="one too many"), pytest.param(10_000_000, id="a bomb")])
def test_a_body_that_inflates_over_the_limit_is_too_large(encoding: str, pack: Any, size: int) -> None:
    with pytest.raises(BodyTooLargeError, match="1000 bytes"):
        decompressed(pack(b"x" * size), encoding, limit=LIMIT)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_that_inflates_to_just_the_limit_is_taken(encoding: str, pack: Any) -> None:
    assert len(decompressed(pack(b"x" * LIMIT), encoding, limit=LIMIT)) == LIMIT


def test_two_members_over_the_limit_together_are_too_large() -> None:
    with pytest.raises(BodyTooLargeError):
        decompressed(gzip.compress(b"x" * 600) * 2, "gzip", limit=LIMIT)


# -- reading


def request_with(reader: StreamReader, headers: dict[str, str]) -> Any:
    return make_mocked_request("POST", "/", headers=headers, payload=reader)


def reader(*pieces: bytes, ended: bool = True) -> StreamReader:
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = Mock(spec=asyncio.Transport)
    made = StreamReader(protocol, 2**16, loop=asyncio.get_running_loop())
    for piece in pieces:
        made.feed_data(piece)
    if ended:
        made.feed_eof()
    return made


CHUNKED = {"transfer-encoding": "chunked"}


async def test_a_body_is_read_whole() -> None:
    body = await read_body(request_with(reader(b"ab", b"cd"), CHUNKED), limit=4, timeout=5)
    assert body == b"abcd"


async def test_a_body_over_the_limit_is_too_large() -> None:
    with pytest.raises(BodyTooLargeError):
        await read_body(request_with(reader(b"abc", b"de"), CHUNKED), limit=4, timeout=5)


async def test_a_body_that_says_it_is_over_the_limit_is_not_read() -> None:
    with pytest.raises(BodyTooLargeError):
        await read_body(request_with(reader(ended=False), {"content-length": "5"}), limit=4, timeout=5)


async def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert await read_body(make_mocked_request("GET", "/"), limit=4, timeout=5) == b""


async def test_a_body_that_does_not_come_is_a_bad_request() -> None:
    with pytest.raises(BadRequestError, match="within 0 s"):
        await read_body(request_with(reader(b"a", ended=False), CHUNKED), limit=4, timeout=0)


def test_a_body_in_very_many_pieces_is_refused_before_they_cost_much() -> None:
    with pytest.raises(BadRequestError, match="more than 16 pieces"):
        decompressed(gzip.compress(b"") * 1000, "gzip", limit=1000)


def test_zeros_after_the_end_are_padding() -> None:
    assert decompressed(gzip.compress(b"{}") + b"\0" * 100, "gzip", limit=1000) == b"{}"
