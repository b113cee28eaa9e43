"""Which headers pass from one side to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.transports.control_headers import FOR_THE_ROUTER, MODEL_REWRITE, REQUEST_ID, SERVED
from app.transports.errors import REASON_HEADER
from app.transports.http.codec.events import Field, Fields
from app.transports.http.codec.framing import tokens_of

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
     "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Meant for one connection only (RFC 9110, section 7.6.1)."""


def _bytes(*names: str) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


_MODEL_REWRITE = tuple(name.encode() for name in MODEL_REWRITE)
_FRAMING = _bytes("content-length", "transfer-encoding", "host", "trailer")
_NOT_TO_ENDPOINT = _bytes(
    *HOP_BY_HOP, *FOR_THE_ROUTER, "host", "content-length", "expect", "http2-settings", REQUEST_ID
)
_NOT_TO_CLIENT = _bytes(*HOP_BY_HOP, SERVED, REASON_HEADER, REQUEST_ID)


def to_endpoint(headers: Fields, request_id: bytes) -> list[Field]:
    """The request headers for the endpoint: all but the connection's own and the router's, and none of framing."""
    passed = _passing(headers, _NOT_TO_ENDPOINT)
    passed.append((b"x-request-id", request_id))
    return passed


def to_client(headers: Fields, request_id: bytes, served_by: bytes) -> list[Field]:
    """The answer's headers for the client, its length among them, with who served it."""
    passed = _passing(headers, _NOT_TO_CLIENT)
    passed.append((b"x-request-id", request_id))
    passed.append((b"x-gateway-destination-endpoint-served", served_by))
    return passed


def trailing(trailers: Fields) -> list[Field]:
    """The trailers that may pass: none that says how a message is to be read (RFC 9110, section 6.5.1)."""
    return _passing(trailers, _NOT_TO_ENDPOINT | _NOT_TO_CLIENT | _FRAMING) if trailers else []


def value_of(headers: Fields, name: bytes) -> str:
    """The first value of a header; without one the empty string."""
    return next((value.decode(errors="replace") for key, value in headers if key == name), "")


def model_rewrite_of(headers: Fields) -> str:
    """The model that is to be served instead of the one that the body names; the empty string for none."""
    return next(filter(None, (value_of(headers, name) for name in _MODEL_REWRITE)), "").strip()


def lower_case(headers: Fields) -> Mapping[str, str]:
    """The headers as plugins see them: lower-case names, repeated ones joined by a comma."""
    return TextHeaders(headers)


class TextHeaders(Mapping[str, str]):
    """Headers as text, which are not read before a plugin asks for one."""

    __slots__ = ("_fields", "_text")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._text: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def get(self, name: str, default: object = None) -> object:  # type: ignore[override]
        """The value of `name`; the mix-in's way would raise and catch."""
        return self._read().get(name, default)

    def __repr__(self) -> str:
        return repr(self._read())

    def _read(self) -> dict[str, str]:
        text = self._text
        if text is None:
            self._text = text = {}
            for field_name, field_value in self._fields:
                name, value = field_name.decode("latin-1"), field_value.decode(errors="replace")
                text[name] = f"{text[name]}, {value}" if name in text else value
        return text


def _passing(headers: Fields, dropped: frozenset[bytes]) -> list[Field]:
    passed = [field for field in headers if field[0] not in dropped]
    if len(passed) < len(headers) and (named := tokens_of(headers, b"connection")):
        return [field for field in passed if field[0] not in named]
    return passed
