"""Any bytes are read the same way however they are split, or refused, and never raise."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.transports.http.codec.events import End
from tests.unit.transports.codec.given import (
    CHUNKED,
    GET,
    NEXT,
    POST,
    encoded,
    is_consistent,
    requests_of,
    responses_of,
)

few = settings(max_examples=150, deadline=None)

CORPUS = [
    NEXT,
    GET + b"\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"GET http://h/x?y HTTP/1.1\r\nhost: h:80\r\n\r\n",
    b"\r\n" + NEXT,
    GET + b"connection: close\r\n\r\n",
    GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n",
    GET + b"accept: */*\r\nx-a: b c\r\nx-a:\r\n\r\n",
    POST + b"content-length: 5\r\n\r\nhello",
    POST + b"content-length: 0\r\n\r\n",
    POST + b"content-length: 4\r\n\r\n\r\n\r\n",
    POST + b"content-length: 4\r\nexpect: 100-continue\r\n\r\n{\n}\n",
    CHUNKED + b"0\r\n\r\n",
    CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b'2;a=b\r\nhe\r\n3;c="d"\r\nllo\r\n0\r\nx: y\r\n\r\n',
    CHUNKED + b"2\r\n\r\n\r\n0\r\n\r\n",
    b"OPTIONS /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
]
RESPONSES = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200\r\n\r\nuntil the end",
    b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\nconnection: close\r\n\r\n",
]
WORDS = [
    *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\x00", b"\x0b", b":", b",", b";", b"0", b"5", b"\xff", b"=", b'"'),
    *(b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n", b"host: h\r\n", b"connection: close\r\n"),
    *(b"connection: upgrade\r\nupgrade: h2c\r\n", b"upgrade: x\r\n", b"expect: 100-continue\r\n", b"connection: keep-alive\r\n"),
    *(b" HTTP/1.1", b" HTTP/1.0", b"GET ", b"POST /", b"HEAD", b"chunked", b"close", b"0\r\n\r\n", b"#", b"*", b"http://", b"@"),
]  # fmt: skip

BYTES = st.lists(st.binary(max_size=20) | st.sampled_from([*WORDS, *CORPUS]), max_size=8).map(b"".join)
SEEDS = st.integers(0, 2**32)


def split(data: bytes, random: Random) -> list[bytes]:
    """`data` in a few parts, some small and some empty."""
    places = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((1, 1, 2, 3, 6))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def mutated(random: Random, corpus: list[bytes]) -> bytes:
    """A few messages with a few changes."""
    data = bytearray(b"".join(random.choices(corpus, k=random.choice((1, 1, 2, 3)))))
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        at = random.randrange(len(data) + 1)
        to = min(len(data), at + random.choice((1, 1, 2, 10)))
        kind = random.randrange(5)
        if kind == 0:
            del data[at:to]
        elif kind == 1:
            data[at:at] = random.choice(WORDS)
        elif kind == 2:
            data[at:to] = random.choice(WORDS)
        elif kind == 3:
            data[at:at] = data[at:to]
        elif at < len(data):
            data[at] = random.randrange(256)
    return bytes(data)


def check(data: bytes, random: Random) -> None:
    """Checks that `data` is read in only one way, and that its complete requests can be encoded and read again."""
    whole = requests_of(data)
    assert is_consistent(whole), (data, whole)
    for parts in (split(data, random), split(data, random)):
        assert requests_of(*parts) == whole, (data, parts)
    ends = [i for i, event in enumerate(whole) if isinstance(event, End)]
    if ends:
        complete = whole[: ends[-1] + 1]
        again = encoded(complete)
        assert requests_of(again) == complete, (data, again)


@given(BYTES, SEEDS)
@few
def test_any_bytes_are_read_in_one_way(data: bytes, seed: int) -> None:
    check(data, Random(seed))


@given(SEEDS)
@few
def test_faulty_requests_are_read_in_one_way(seed: int) -> None:
    random = Random(seed)
    check(mutated(random, CORPUS), random)


@given(BYTES)
@few
def test_single_bytes_are_read_like_all_at_once(data: bytes) -> None:
    assert requests_of(*[data[i : i + 1] for i in range(len(data))]) == requests_of(data)


@given(st.lists(st.sampled_from(CORPUS), min_size=1, max_size=3).map(b"".join), SEEDS)
@few
def test_valid_requests_are_not_refused_however_they_are_split(data: bytes, seed: int) -> None:
    events = requests_of(*split(data, Random(seed)))
    assert isinstance(events[-1], End)
    assert is_consistent(events)


@given(st.binary(max_size=60) | SEEDS.map(lambda seed: mutated(Random(seed), RESPONSES)), SEEDS, st.booleans())
@few
def test_any_bytes_are_a_response_or_an_error_however_they_are_split(data: bytes, seed: int, head_only: bool) -> None:
    whole = responses_of(data, head_only=head_only, ends=True)
    events = responses_of(*filter(None, split(data, Random(seed))), head_only=head_only, ends=True)
    if isinstance(whole[-1], End) and not whole[-1].reusable:
        return  # data after the last response is dropped or an error, depending on where it was split
    assert events == whole if isinstance(whole[-1], End) else events[-1] is whole[-1]


@pytest.mark.fuzz
def test_a_hundred_thousand_faulty_requests_are_read_in_one_way() -> None:
    random = Random(7)
    for _ in range(100_000):
        check(mutated(random, CORPUS), random)
