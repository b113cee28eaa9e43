"""Bodies: decompressed up to a limit, and returned once."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from app.domain.errors import BadRequestError, BodyTooLargeError
from app.transports.compression import decompressed
from app.transports.http.codec.events import RequestHead
from app.transports.http.incoming import IncomingRequest

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
def test_a_compressed_body_is_decompressed(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    assert decompressed(pack(BODY), encoding, limit=LIMIT) == BODY


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "deflate, br", "rot13"])
def test_an_unknown_encoding_gives_nothing(encoding: str) -> None:
    assert decompressed(BODY, encoding, limit=LIMIT) == b""


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        pytest.param("gzip", BODY, id="plain as gzip"),
        pytest.param("deflate", BODY, id="plain as deflate"),
        pytest.param("gzip", zlib.compress(BODY), id="deflate as gzip"),
        pytest.param("deflate", gzip.compress(BODY), id="gzip as deflate"),
        pytest.param("gzip", gzip.compress(BODY)[:-1], id="gzip truncated in its checksum"),
        pytest.param("gzip", gzip.compress(BODY)[:15], id="gzip truncated"),
        pytest.param("deflate", zlib.compress(BODY)[:-1], id="deflate truncated"),
        pytest.param("gzip", gzip.compress(BODY)[:-8] + b"\0" * 8, id="wrong checksum"),
        pytest.param("gzip", gzip.compress(BODY)[:5], id="half a header"),
    ],
)
def test_a_corrupt_body_is_a_bad_request(encoding: str, body: bytes) -> None:
    with pytest.raises(BadRequestError, match=encoding):
        decompressed(body, encoding, limit=LIMIT)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("size", [pytest.param(LIMIT + 1, id="one too many"), pytest.param(10_000_000, id="a bomb")])
def test_a_body_that_decompresses_over_the_limit_is_too_large(encoding: str, pack: Any, size: int) -> None:
    with pytest.raises(BodyTooLargeError, match="1000 bytes"):
        decompressed(pack(b"x" * size), encoding, limit=LIMIT)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_body_that_decompresses_to_exactly_the_limit_is_accepted(encoding: str, pack: Any) -> None:
    assert len(decompressed(pack(b"x" * LIMIT), encoding, limit=LIMIT)) == LIMIT


def test_two_members_over_the_limit_together_are_too_large() -> None:
    with pytest.raises(BodyTooLargeError):
        decompressed(gzip.compress(b"x" * 600) * 2, "gzip", limit=LIMIT)


def test_a_body_of_the_maximum_number_of_members_is_decompressed() -> None:
    assert (
        decompressed(b"".join(gzip.compress(b"%x" % i) for i in range(16)), "gzip", limit=1000) == b"0123456789abcdef"
    )


def test_a_body_of_too_many_members_is_refused() -> None:
    with pytest.raises(BadRequestError, match="more than 16 members"):
        decompressed(gzip.compress(b"") * 1000, "gzip", limit=1000)


def test_zeros_after_the_end_are_padding() -> None:
    assert decompressed(gzip.compress(b"{}") + b"\0" * 100, "gzip", limit=1000) == b"{}"


# -- incoming requests


def incoming_of(*chunks: bytes) -> IncomingRequest:
    made = IncomingRequest(RequestHead("POST", "/", [], None, True, True, True, False), None)  # noqa: FBT003
    made.pieces += chunks
    return made


@pytest.mark.parametrize("chunks", [(), (b"ab",), (b"ab", b"", b"cd")])
def test_a_body_is_returned_whole_and_once(chunks: tuple[bytes, ...]) -> None:
    incoming = incoming_of(*chunks)
    assert (incoming.take_body(), incoming.take_body()) == (b"".join(chunks), b"")


def test_a_body_in_one_chunk_is_not_copied() -> None:
    chunk = b"x" * 1000
    assert incoming_of(chunk).take_body() is chunk


def test_a_request_is_ready_when_it_is_complete_or_refused() -> None:
    unfinished, whole, refused = incoming_of(b"a"), incoming_of(b"a"), incoming_of(b"a")
    whole.whole = True
    refused.error = BadRequestError("no")
    assert [one.ready for one in (unfinished, whole, refused)] == [False, True, True]
    assert IncomingRequest(None, BadRequestError("no")).ready
