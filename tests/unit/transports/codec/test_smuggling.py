"""Ambiguous requests are refused however they are split, and nothing after them is read."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.errors import BadRequestError, UnsupportedError
from app.transports.http.codec.events import End
from tests.unit.transports.codec.given import CHUNKED, GET, NEXT, POST, head, requests_of, splits

HELLO = b"5\r\nhello\r\n0\r\n\r\n"
FIRST = [head("GET", "/next"), End()]


def refused(what: str, data: bytes, error: type[Exception] = BadRequestError) -> Any:
    return pytest.param(data, error, id=what)


def coding(what: str, value: bytes, error: type[Exception] = BadRequestError) -> Any:
    return refused(what, POST + b"transfer-encoding: " + value + b"\r\n\r\n" + HELLO, error)


def length(what: str, value: bytes) -> Any:
    return refused(what, POST + b"content-length: " + value + b"\r\n\r\nhello")


def both(what: str, *fields: bytes, error: type[Exception] = BadRequestError) -> Any:
    return refused(what, POST + b"\r\n".join(fields) + b"\r\n\r\n" + HELLO, error)


def line(what: str, value: bytes, error: type[Exception] = BadRequestError) -> Any:
    return refused(what, value + b"\r\nhost: h\r\n\r\n", error)


def field(what: str, value: bytes) -> Any:
    return refused(what, GET + value + b"\r\n\r\n")


def first_field(what: str, value: bytes) -> Any:
    return refused(what, b"GET / HTTP/1.1\r\n" + value + b"\r\nhost: h\r\n\r\n")


def host(what: str, value: bytes) -> Any:
    return refused(what, b"GET / HTTP/1.1\r\n" + value + b"\r\n")


def chunk(what: str, size: bytes) -> Any:
    return refused(what, CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")


def body(what: str, value: bytes) -> Any:
    return refused(what, CHUNKED + value)


def trailer(what: str, value: bytes) -> Any:
    return refused(what, CHUNKED + b"0\r\n" + value + b"\r\n\r\n")


LENGTH_AND_CODING = [
    both("CL.TE", b"content-length: 5", b"transfer-encoding: chunked"),
    both("TE.CL", b"transfer-encoding: chunked", b"content-length: 5"),
    both("CL.TE, length 0", b"content-length: 0", b"transfer-encoding: chunked"),
    both("TE.CL, length 0", b"transfer-encoding: chunked", b"content-length: 0"),
    both("CL.TE, others between", b"content-length: 5", b"x: y", b"transfer-encoding: chunked"),
    both("CL.TE, other case", b"Content-LENGTH: 5", b"TRANSFER-encoding: Chunked"),
    both("CL.TE, not chunked", b"content-length: 5", b"transfer-encoding: identity"),
    both("TE.CL, not chunked", b"transfer-encoding: identity", b"content-length: 5"),
    both("CL.TE, both unknown", b"content-length: x", b"transfer-encoding: x"),
    both("CL.TE, empty length", b"content-length:", b"transfer-encoding: chunked"),
    both("CL.TE, empty coding", b"content-length: 5", b"transfer-encoding:"),
    both("TE.TE", b"transfer-encoding: chunked", b"transfer-encoding: chunked"),
    both("TE.TE, second identity", b"transfer-encoding: chunked", b"transfer-encoding: identity"),
    both("TE.TE, first identity", b"transfer-encoding: identity", b"transfer-encoding: chunked"),
    both("TE.TE, second unknown", b"transfer-encoding: chunked", b"Transfer-encoding: cow"),
    both("TE.TE, first unknown", b"transfer-encoding: cow", b"Transfer-encoding: chunked"),
    both("TE.TE, second empty", b"transfer-encoding: chunked", b"transfer-encoding:"),
    both("TE.TE, first empty", b"transfer-encoding:", b"transfer-encoding: chunked"),
    refused("HTTP/1.0 with a coding", b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO),
    refused("HTTP/1.0 with a coding, kept alive", b"POST / HTTP/1.0\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO),
    refused("HTTP/1.0 with both", b"POST / HTTP/1.0\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + HELLO),
]  # fmt: skip

CODINGS = [
    coding("vertical tab before", b"\x0bchunked"),
    coding("vertical tab after", b"chunked\x0b"),
    coding("form feed after", b"chunked\x0c"),
    coding("NUL before", b"\x00chunked"),
    coding("NUL after", b"chunked\x00"),
    coding("lone CR after", b"chunked\r"),
    coding("lone LF before", b"\nchunked"),
    coding("folded", b"\r\n chunked"),
    coding("folded by a tab", b"\r\n\tchunked"),
    coding("folded after", b"chunked\r\n "),
    coding("trailing comma", b"chunked,"),
    coding("trailing comma and space", b"chunked, "),
    coding("chunked, identity", b"chunked, identity"),
    coding("chunked twice in a list", b"chunked, chunked"),
    coding("chunked, not last", b"chunked, gzip"),
    coding("empty", b""),
    coding("only a space", b"  "),
    coding("leading comma", b",chunked", UnsupportedError),
    coding("xchunked", b"xchunked", UnsupportedError),
    coding("chunkedx", b"chunkedx", UnsupportedError),
    coding("chunk", b"chunk", UnsupportedError),
    coding("in quotes", b'"chunked"', UnsupportedError),
    coding("in single quotes", b"'chunked'", UnsupportedError),
    coding("with a parameter", b"chunked;q=1", UnsupportedError),
    coding("no-break space after", b"chunked\xa0", UnsupportedError),
    coding("long s", b"chun\xc5\xbfed", UnsupportedError),
    coding("identity", b"identity", UnsupportedError),
    coding("gzip", b"gzip", UnsupportedError),
    coding("gzip, chunked", b"gzip, chunked", UnsupportedError),
    coding("identity, chunked", b"identity, chunked", UnsupportedError),
    both("space before the colon", b"transfer-encoding : chunked"),
    both("tab before the colon", b"transfer-encoding\t: chunked"),
    both("NUL before the name", b"\x00transfer-encoding: chunked"),
    both("NUL in the name", b"transfer-\x00encoding: chunked"),
    both("folded before the colon", b"transfer-encoding\r\n : chunked"),
    both("folded into another header", b"x: y\r\n transfer-encoding: chunked"),
    both("behind a lone LF", b"x: y\ntransfer-encoding: chunked"),
    both("behind a lone CR", b"x: y\rtransfer-encoding: chunked"),
    both("behind a NUL", b"x: y\x00transfer-encoding: chunked"),
    both("no colon", b"transfer-encoding chunked"),
]

LENGTHS = [
    length("plus", b"+5"),
    length("minus", b"-1"),
    length("minus zero", b"-0"),
    length("hexadecimal", b"0x5"),
    length("hexadecimal digit", b"a"),
    length("two with a space", b"5 5"),
    length("list of equals", b"5, 5"),
    length("list without a space", b"5,5"),
    length("list of others", b"5, 6"),
    length("trailing comma", b"5,"),
    length("leading comma", b",5"),
    length("empty", b""),
    length("only a space", b" "),
    length("underscore", b"1_0"),
    length("semicolon", b"5;"),
    length("fraction", b"5.0"),
    length("exponent", b"5e0"),
    length("quoted", b'"5"'),
    length("vertical tab", b"5\x0b"),
    length("form feed", b"\x0c5"),
    length("NUL", b"5\x00"),
    length("lone CR", b"5\r"),
    length("folded", b"\r\n 5"),
    length("superscript in latin-1", b"\xb25"),
    length("other digits in UTF-8", b"\xd9\xa5"),
    length("no-break space", b"5\xa0"),
    length("words", b"five"),
    length("over 63 bits", b"9223372036854775808"),
    length("over 64 bits", b"18446744073709551616"),
    length("over 64 bits by 5", b"18446744073709551621"),
    length("huge", b"9" * 100),
    both("equal twice", b"content-length: 5", b"content-length: 5"),
    both("zero twice", b"content-length: 0", b"content-length: 0"),
    both("two others", b"content-length: 5", b"content-length: 6"),
    both("apart", b"content-length: 5", b"x: y", b"Content-Length: 0"),
    both("second empty", b"content-length: 5", b"content-length:"),
    both("space before the colon of a length", b"content-length : 5"),
    both("folded before a length", b"x: y\r\n content-length: 5"),
]

REQUEST_LINES = [
    line("lower-case method", b"get / HTTP/1.1"),
    line("mixed-case method", b"Get / HTTP/1.1"),
    line("unknown method", b"FOO / HTTP/1.1"),
    line("method and more", b"GETX / HTTP/1.1"),
    line("method that is no token", b"G@T / HTTP/1.1"),
    line("no method", b" / HTTP/1.1"),
    line("RTSP method", b"DESCRIBE / HTTP/1.1"),
    line("space before the method", b" GET / HTTP/1.1"),
    line("tab before the method", b"\tGET / HTTP/1.1"),
    line("NUL before the method", b"\x00GET / HTTP/1.1"),
    line("two spaces after the method", b"GET  / HTTP/1.1"),
    line("tab after the method", b"GET\t/ HTTP/1.1"),
    line("two spaces after the target", b"GET /  HTTP/1.1"),
    line("tab after the target", b"GET /\tHTTP/1.1"),
    line("vertical tab after the target", b"GET /\x0bHTTP/1.1"),
    line("space after the version", b"GET / HTTP/1.1 "),
    line("more after the version", b"GET / HTTP/1.1 x"),
    line("more digits", b"GET / HTTP/1.10"),
    line("zero before", b"GET / HTTP/01.1"),
    line("no minor version", b"GET / HTTP/1"),
    line("lower-case version", b"GET / http/1.1"),
    line("another word", b"GET / HTTPS/1.1"),
    line("RTSP/1.0", b"GET / RTSP/1.0"),
    line("RTSP/1.1", b"GET / RTSP/1.1"),
    line("ICE/1.0", b"SOURCE / ICE/1.0"),
    line("comma in the version", b"GET / HTTP/1,1"),
    line("space in the version", b"GET / HTTP/ 1.1"),
    line("HTTP/1.2", b"GET / HTTP/1.2"),
    line("HTTP/3.0", b"GET / HTTP/3.0"),
    line("HTTP/2.0", b"GET / HTTP/2.0", UnsupportedError),
    line("HTTP/0.9 by name", b"GET / HTTP/0.9", UnsupportedError),
    line("HTTP/0.9 by no name", b"GET /", UnsupportedError),
    line("space in place of a version", b"GET / "),
    refused("HTTP/2 from the start", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    refused("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    refused("a response", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    line("CONNECT", b"CONNECT h:80 HTTP/1.1", UnsupportedError),
    line("CONNECT to a path", b"CONNECT /x HTTP/1.1", UnsupportedError),
    line("OPTIONS *", b"OPTIONS * HTTP/1.1", UnsupportedError),
]

TARGETS = [
    line(what, b"GET " + target + b" HTTP/1.1")
    for what, target in [
        ("no target", b""),
        ("asterisk", b"*"),
        ("fragment", b"/x#y"),
        ("fragment after a query", b"/x?y#z"),
        ("empty fragment", b"/#"),
        ("fragment after a host", b"http://h#x"),
        ("fragment in absolute form", b"http://h/x#y"),
        ("word", b"x"),
        ("relative path", b"./x"),
        ("query only", b"?x"),
        ("authority form", b"h:80"),
        ("another scheme", b"ftp://h/x"),
        ("no host in absolute form", b"http:///x"),
        ("no authority in absolute form", b"http:/x"),
        ("no host but a port in absolute form", b"http://:80/x"),
        ("user in absolute form", b"http://u@h/x"),
        ("two at signs in absolute form", b"http://h@i@j/x"),
        ("backslash in absolute form", b"http://h\\@i/x"),
        ("port that is no number in absolute form", b"http://h:x/"),
        ("space", b"/a b"),
        ("NUL in a target", b"/\x00"),
        ("control character in a target", b"/\x01"),
        ("escape in a target", b"/\x1b"),
        ("delete in a target", b"/\x7f"),
        ("tab in a target", b"/a\tb"),
        ("form feed in a target", b"/a\x0cb"),
        ("lone CR in a target", b"/a\rb"),
        ("lone LF in a target", b"/a\nb"),
        ("beyond ASCII", b"/\xe9"),
        ("UTF-8", b"/\xc3\xa9"),
        ("NUL in a query", b"/?\x00"),
        ("beyond ASCII in a query", b"/?\xff"),
    ]
]

BAD_FIELDS = [
    ("space before the colon", b"x : y"),
    ("tab before the colon", b"x\t: y"),
    ("no name", b": y"),
    ("only a colon", b":"),
    ("no colon", b"x"),
    ("a space before", b" x: y"),
    ("a tab before", b"\tx: y"),
    ("a vertical tab before", b"\x0bx: y"),
    ("folded", b"x: a\r\n b"),
    ("folded by a tab", b"x: a\r\n\tb"),
    ("folded and empty", b"x: a\r\n \r\ny: b"),
    ("folded at once", b"x:\r\n y"),
    ("NUL in the name", b"x\x00: y"),
    ("NUL in the value", b"x: a\x00b"),
    ("control character in the value", b"x: a\x01b"),
    ("backspace in the value", b"x: a\x08"),
    ("vertical tab in the value", b"x: a\x0bb"),
    ("form feed in the value", b"x: a\x0cb"),
    ("escape in the value", b"x: a\x1bb"),
    ("delete in the value", b"x: a\x7fb"),
    ("control character alone", b"x: \x01"),
    ("lone CR in the value", b"x: a\rb"),
    ("lone CR at the end", b"x: a\r"),
    ("lone CR before a header", b"x: a\ry: b"),
    ("lone LF before a header", b"x: a\ny: b"),
    ("lone LF and an end", b"x: a\n"),
    ("two lone LF", b"x: a\n\nGET /evil HTTP/1.1"),
    ("space in the name", b"x y: z"),
    ("parenthesis in the name", b"x(: z"),
    ("at sign in the name", b"x@: z"),
    ("quote in the name", b'x": z'),
    ("slash in the name", b"x/y: z"),
    ("backslash in the name", b"x\\: z"),
    ("comma in the name", b"x,: z"),
    ("equals sign in the name", b"x=: z"),
    ("brace in the name", b"x{: z"),
    ("name beyond ASCII", b"x\x80: y"),
    ("name in UTF-8", b"\xc3\xa9: y"),
]
FIELDS = [field(what, value) for what, value in BAD_FIELDS]
FIRST_FIELDS = [first_field(what, value) for what, value in BAD_FIELDS]
TRAILERS = [trailer(what, value) for what, value in BAD_FIELDS]

HOSTS = [
    host("none", b""),
    host("two equals", b"host: h\r\nhost: h\r\n"),
    host("two others", b"host: h\r\nHost: i\r\n"),
    host("one and an empty one", b"host: h\r\nhost:\r\n"),
    host("space before the colon", b"host : h\r\n"),
    host("no colon", b"host\r\n"),
    host("space within", b"host: a b\r\n"),
    host("tab within", b"host: a\tb\r\n"),
    host("path", b"host: h/x\r\n"),
    host("query", b"host: h?x\r\n"),
    host("fragment", b"host: h#x\r\n"),
    host("user", b"host: u@h\r\n"),
    host("backslash", b"host: h\\x\r\n"),
    host("URL", b"host: http://h\r\n"),
    host("brackets", b"host: <h>\r\n"),
    host("quote", b'host: "h"\r\n'),
    host("UTF-8", b"host: \xc3\xa9\r\n"),
    host("NUL", b"host: h\x00\r\n"),
    host("port that is no number", b"host: h:x\r\n"),
    host("two ports", b"host: h:80:80\r\n"),
    host("port with a sign", b"host: h:+80\r\n"),
    host("bracket alone", b"host: [\r\n"),
    host("bracket within", b"host: a[b]c\r\n"),
    host("IPv6 without brackets", b"host: ::1\r\n"),
    refused("two in HTTP/1.0", b"GET / HTTP/1.0\r\nhost: h\r\nhost: h\r\n\r\n"),
]

LINE_ENDS = [
    refused("LF before the request", b"\n" + NEXT),
    refused("CR before the request", b"\r" + NEXT),
    refused("two LF before the request", b"\n\n" + NEXT),
    refused("two CR before the request", b"\r\r" + NEXT),
    refused("LF CR before the request", b"\n\r" + NEXT),
    refused("CR CR LF before the request", b"\r\r\n" + NEXT),
    refused("CR LF LF before the request", b"\r\n\n" + NEXT),
    refused("LF after the request line", b"GET / HTTP/1.1\nhost: h\r\n\r\n"),
    refused("CR after the request line", b"GET / HTTP/1.1\rhost: h\r\n\r\n"),
    refused("LF after a header", b"GET / HTTP/1.1\r\nhost: h\n\r\n"),
    refused("CR CR LF after a header", b"GET / HTTP/1.1\r\nhost: h\r\r\n\r\n"),
    refused("LF at the end of the head", GET + b"\n"),
    refused("CR at the end of the head", GET + b"\rGET"),
    refused("CR CR LF at the end of the head", GET + b"\r\r\n"),
    refused("LF LF at the end of the head", GET[:-2] + b"\n\n"),
    refused("LF before a body", POST + b"content-length: 5\n\r\nhello"),
    refused("LF for the empty line before a body", POST + b"content-length: 5\r\n\nhello"),
    refused("only LF", NEXT.replace(b"\r", b"")),
    refused("only CR", NEXT.replace(b"\n", b"")),
]

CHUNKS = [
    chunk("hexadecimal by 0x", b"0x5"),
    chunk("minus", b"-1"),
    chunk("plus", b"+5"),
    chunk("empty", b""),
    chunk("no digit", b"g"),
    chunk("digit and more", b"5g"),
    chunk("comma", b"5,"),
    chunk("underscore", b"5_"),
    chunk("space before", b" 5"),
    chunk("tab before", b"\t5"),
    chunk("space after", b"5 "),
    chunk("tab after", b"5\t"),
    chunk("vertical tab after", b"5\x0b"),
    chunk("NUL before", b"\x005"),
    chunk("NUL after", b"5\x00"),
    chunk("CR CR LF", b"5\r"),
    chunk("over 64 bits", b"10000000000000000"),
    chunk("over 64 bits by 5", b"10000000000000005"),
    chunk("huge", b"f" * 40),
    chunk("semicolon without an extension", b"5;"),
    chunk("space before an extension", b"5 ;a"),
    chunk("space in an extension", b"5; a"),
    chunk("NUL in an extension", b"5;a\x00"),
    chunk("control character in an extension", b"5;a=\x01"),
    chunk("extension beyond ASCII", b"5;\x80"),
    chunk("quote that is not closed", b'5;a="b'),
    chunk("after a quote", b'5;a="b"c'),
    chunk("NUL in quotes", b'5;a="\x00"'),
    chunk("CR in quotes", b'5;a="\r"'),
    chunk("LF in quotes", b'5;a="\n"'),
    chunk("LF in quotes, escaped", b'5;a="\\\n"'),
    chunk("CR LF in quotes", b'5;a="\r\n"'),
    chunk("CR in an extension", b"5;a\rb"),
    chunk("CR CR LF after an extension", b"5;a\r"),
    chunk("LF in an extension", b"5;a\nb"),
    body("LF after the size", b"5\nhello\r\n0\r\n\r\n"),
    body("LF after a semicolon", b"5;\nhello\r\n0\r\n\r\n"),
    body("LF after an extension", b"5;a\nhello\r\n0\r\n\r\n"),
    body("LF after an extension's value", b"5;a=b\nhello\r\n0\r\n\r\n"),
    body("LF after an extension's quotes", b'5;a="b"\nhello\r\n0\r\n\r\n'),
    body("CR after the size", b"5\rhello\r\n0\r\n\r\n"),
    body("LF after the data", b"5\r\nhello\n0\r\n\r\n"),
    body("CR after the data", b"5\r\nhello\r0\r\n\r\n"),
    body("nothing after the data", b"5\r\nhello0\r\n\r\n"),
    body("two line ends after the data", b"5\r\nhello\r\n\r\n0\r\n\r\n"),
    body("longer than said by one", b"5\r\nhellox\r\n0\r\n\r\n"),
    body("longer than said", b"4\r\nhello\r\n0\r\n\r\n"),
    body("shorter than said", b"6\r\nhello\r\n0\r\n\r\n"),
    body("shorter than said by two", b"7\r\nhello\r\n0\r\n\r\n"),
    body("no size", b"hello"),
    body("line end in place of a size", b"\r\n5\r\nhello\r\n0\r\n\r\n"),
    body("LF after the last size", b"0\n\r\n"),
    body("CR after the last size", b"0\r\r\n"),
    body("LF at the end", b"0\r\n\n"),
    body("CR CR LF at the end", b"0\r\n\r\r\n"),
    body("space after the last size", b"0 \r\n\r\n"),
    body("last size as 0x0", b"0x0\r\n\r\n"),
    body("a request after the last size", b"0\r\n" + NEXT),
    body("LF after a trailer", b"0\r\nx: y\n\r\n"),
    body("LF at the end of trailers", b"0\r\nx: y\r\n\n"),
    body("LF LF at the end of trailers", b"0\r\nx: y\n\n"),
    trailer("length as a trailer", b"content-length: 5"),
    trailer("two lengths as trailers", b"content-length: 5\r\ncontent-length: 6"),
    trailer("coding as a trailer", b"transfer-encoding: chunked"),
    trailer("another coding as a trailer", b"transfer-encoding: gzip"),
    trailer("length and coding as trailers", b"content-length: 5\r\ntransfer-encoding: chunked"),
    trailer("connection as a trailer", b"connection: close"),
]

UPGRADES = [
    refused(what, GET + b"connection: upgrade\r\n" + value + b"\r\n\r\n", UnsupportedError)
    for what, value in [
        ("websocket", b"upgrade: websocket"),
        ("another version of HTTP/2", b"upgrade: h2c-14"),
        ("TLS", b"upgrade: TLS/1.0"),
        ("among others", b"upgrade: h2c, websocket"),
        ("in a second header", b"upgrade: h2c\r\nupgrade: websocket"),
    ]
]

TABLES = {
    "length and coding": LENGTH_AND_CODING,
    "coding": CODINGS,
    "length": LENGTHS,
    "request line": REQUEST_LINES,
    "target": TARGETS,
    "first header": FIRST_FIELDS,
    "header": FIELDS,
    "trailer": TRAILERS,
    "host": HOSTS,
    "line end": LINE_ENDS,
    "chunk": CHUNKS,
    "upgrade": UPGRADES,
}
CASES = [
    pytest.param(*case.values, id=f"{table}: {case.id}") for table, cases in TABLES.items() for case in cases
]  # fmt: skip


@pytest.mark.parametrize(("data", "error"), CASES)
def test_it_is_refused_however_it_is_split(data: bytes, error: type[Exception]) -> None:
    whole = requests_of(data)
    assert whole[-1] is error
    assert not any(isinstance(event, End) for event in whole)
    assert all(requests_of(*parts) == whole for parts in splits(data))


@pytest.mark.parametrize(("data", "error"), CASES)
def test_nothing_after_it_is_read(data: bytes, error: type[Exception]) -> None:
    whole = requests_of(data)
    assert [requests_of(data + NEXT), requests_of(data, NEXT), requests_of(data, NEXT, NEXT)] == [whole] * 3


@pytest.mark.parametrize(("data", "error"), CASES)
def test_it_is_refused_after_a_valid_request(data: bytes, error: type[Exception]) -> None:
    events = [*FIRST, *requests_of(data)]
    assert events[-1] is error
    assert all(requests_of(*parts) == events for parts in splits(NEXT + data))


BETWEEN = [
    ("LF", b"\n"),
    ("CR", b"\r"),
    ("two LF", b"\n\n"),
    ("two CR", b"\r\r"),
    ("LF CR", b"\n\r"),
    ("CR CR LF", b"\r\r\n"),
    ("CR LF LF", b"\r\n\n"),
    ("CR LF CR", b"\r\n\r"),
    ("LF CR LF", b"\n\r\n"),
    ("space", b" "),
    ("tab", b"\t"),
    ("empty line and a space", b"\r\n "),
    ("NUL", b"\x00"),
    ("a byte of the body too many", b"x"),
]
BEFORE = [
    ("no body", NEXT),
    ("length 0", POST + b"content-length: 0\r\n\r\n"),
    ("a body", POST + b"content-length: 2\r\n\r\nhi"),
    ("a body that ends in CR", POST + b"content-length: 2\r\n\r\nh\r"),
    ("a body that ends in LF", POST + b"content-length: 2\r\n\r\nh\n"),
    ("a body of line ends", POST + b"content-length: 4\r\n\r\n\r\n\r\n"),
    ("chunks", CHUNKED + HELLO),
    ("trailers", CHUNKED + b"0\r\nx: y\r\n\r\n"),
    ("an offer of HTTP/2", GET + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"),
]


@pytest.mark.parametrize("between", [pytest.param(value, id=what) for what, value in BETWEEN])
@pytest.mark.parametrize("before", [pytest.param(value, id=what) for what, value in BEFORE])
def test_only_empty_lines_are_allowed_between_requests(before: bytes, between: bytes) -> None:
    events = [*requests_of(before), BadRequestError]
    assert all(requests_of(*parts) == events for parts in splits(before + between + NEXT))
    assert requests_of(NEXT + before + between + NEXT + NEXT) == [*FIRST, *events]


SMUGGLED = b"GET /evil HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(POST + b"content-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, id="in a body"),
        pytest.param(CHUNKED + b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n", id="in a chunk"),
        pytest.param(POST + b"content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, id="CL.TE"),
        pytest.param(POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n20\r\n" + SMUGGLED + b"\r\n0\r\n\r\n", id="TE.CL"),
        pytest.param(POST + b"content_length: 0\r\ncontent-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, id="underscore"),
        pytest.param(POST + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, id="HTTP/2 offered"),
        pytest.param(POST + b"connection: upgrade\r\nupgrade:\r\ncontent-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, id="nothing offered"),
        pytest.param(POST + b"connection: content-length\r\ncontent-length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, id="length as an option of the connection"),
        pytest.param(b"POST / HTTP/1.0\r\ncontent-length: 0\r\n\r\n" + SMUGGLED, id="after HTTP/1.0"),
        pytest.param(b"POST / HTTP/1.0\r\nconnection: keep-alive, close\r\ncontent-length: 0\r\n\r\n" + SMUGGLED, id="after HTTP/1.0 that closes"),
        pytest.param(POST + b"connection: close\r\n\r\n" + SMUGGLED, id="after the last"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: h\r\nx: \n\n" + SMUGGLED, id="after lone LF"),
        pytest.param(CHUNKED + b"0\r\n\n" + SMUGGLED, id="after a lone LF in chunks"),
    ],
)  # fmt: skip
def test_a_smuggled_request_is_never_reported(data: bytes) -> None:
    for parts in splits(data):
        assert "/evil" not in [getattr(event, "target", None) for event in requests_of(*parts)]
