"""Selects the headers that are forwarded, in both directions."""

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
"""Valid for a single connection (RFC 9110, section 7.6.1)."""


def _bytes(*names: str) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


_MODEL_REWRITE = tuple(name.encode() for name in MODEL_REWRITE)
_FRAMING = _bytes("content-length", "transfer-encoding", "host", "trailer")
_NOT_TO_ENDPOINT = _bytes(
    *HOP_BY_HOP, *FOR_THE_ROUTER, "host", "content-length", "expect", "http2-settings", REQUEST_ID
)
_NOT_TO_CLIENT = _bytes(*HOP_BY_HOP, SERVED, REASON_HEADER, REQUEST_ID)


def to_endpoint(headers: Fields, request_id: bytes) -> list[Field]:
    """The request headers for the endpoint: without hop-by-hop, control and framing headers, with `request_id`."""
    kept = _without(headers, _NOT_TO_ENDPOINT)
    kept.append((b"x-request-id", request_id))
    return kept


def to_client(headers: Fields, request_id: bytes, served_by: bytes) -> list[Field]:
    """The response headers for the client, `content-length` included, with the address that served the request."""
    kept = _without(headers, _NOT_TO_CLIENT)
    kept.append((b"x-request-id", request_id))
    kept.append((b"x-gateway-destination-endpoint-served", served_by))
    return kept


def trailing(trailers: Fields) -> list[Field]:
    """The trailers to forward: without hop-by-hop, control and framing fields (RFC 9110, section 6.5.1)."""
    return _without(trailers, _NOT_TO_ENDPOINT | _NOT_TO_CLIENT | _FRAMING) if trailers else []


def value_of(headers: Fields, name: bytes) -> str:
    """The first value of a header; empty if there is none."""
    return next((value.decode(errors="replace") for key, value in headers if key == name), "")


def model_rewrite_of(headers: Fields) -> str:
    """The model to serve instead of the one in the body; empty for no rewrite."""
    return next(filter(None, (value_of(headers, name) for name in _MODEL_REWRITE)), "").strip()


def lower_case(headers: Fields) -> Mapping[str, str]:
    """The headers as plugins see them: names in lower case, the values of repeated headers joined by commas."""
    return TextHeaders(headers)


class TextHeaders(Mapping[str, str]):
    """Headers as text, decoded when a plugin first reads one."""

    __slots__ = ("_fields", "_text")

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self._text: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())

    def get(self, name: str, default: object = None) -> object:  # type: ignore[override]
        """The value of `name`. Unlike the mix-in's method it raises no exception internally."""
        return self._decoded().get(name, default)

    def __repr__(self) -> str:
        return repr(self._decoded())

    def _decoded(self) -> dict[str, str]:
        text = self._text
        if text is None:
            self._text = text = {}
            for field_name, field_value in self._fields:
                name, value = field_name.decode("latin-1"), field_value.decode(errors="replace")
                text[name] = f"{text[name]}, {value}" if name in text else value
        return text


def _without(headers: Fields, dropped: frozenset[bytes]) -> list[Field]:
    kept = [field for field in headers if field[0] not in dropped]
    if len(kept) < len(headers) and (named := tokens_of(headers, b"connection")):
        return [field for field in kept if field[0] not in named]
    return kept
