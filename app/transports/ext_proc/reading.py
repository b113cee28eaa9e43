"""Reads the messages that a proxy sends."""

from __future__ import annotations

from collections.abc import Mapping

from envoy.service.ext_proc.v3.external_processor_pb2 import HttpHeaders, ProcessingRequest
from google.protobuf.struct_pb2 import Struct, Value

from app.domain.addresses import parse_authority
from app.transports.control_headers import MODEL_REWRITE, SERVED, SUBSET

SUBSET_NAMESPACE = "envoy.lb.subset_hint"
BALANCING_NAMESPACE = "envoy.lb"
ATTRIBUTES = "envoy.filters.http.ext_proc"
"""Namespace of the attributes that Envoy is configured to send."""

_FAILURE_PREFIXES = ("upstream_", "no_healthy_upstream")
"""Prefixes of Envoy's response code details if an endpoint failed."""

Headers = Mapping[str, str]


def headers_of(message: HttpHeaders) -> Headers:
    """The headers, pseudo-headers such as `:path` included, by lower-case name. Repeated ones are joined by commas."""
    headers: dict[str, str] = {}
    for header in message.headers.headers:
        name = header.key.lower()
        raw = header.raw_value
        value = raw.decode(errors="replace") if raw else header.value
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def model_rewrite_of(headers: Headers) -> str:
    """The model to serve instead of the one in the body; empty for no rewrite."""
    return next(filter(None, (headers.get(name, "").strip() for name in MODEL_REWRITE)), "")


def target_of(headers: Headers) -> str:
    """The request target: path and query."""
    names = (":path", "x-original-path", "x-forwarded-path")
    return next(filter(None, (headers.get(name) for name in names)), "/")


def subset_of(message: ProcessingRequest) -> frozenset[str] | None:
    """The addresses that the request may go to, as in `Endpoint.authority`; None if the message does not restrict them.

    The protocol requires a list of strings; one string of addresses separated by commas is accepted too. Entries
    other than `ip:port` match no endpoint.
    """
    if not message.HasField("metadata_context"):
        return None
    namespaces = message.metadata_context.filter_metadata
    hint = namespaces[SUBSET_NAMESPACE].fields if SUBSET_NAMESPACE in namespaces else {}
    if SUBSET not in hint:
        return None
    value: Value = hint[SUBSET]
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        addresses = [entry.string_value for entry in value.list_value.values if entry.HasField("string_value")]
    elif kind == "string_value":
        addresses = value.string_value.split(",")
    else:
        return None
    return frozenset(filter(None, map(parse_authority, addresses)))


def served_by(message: ProcessingRequest) -> str:
    """The address of the endpoint that responded; empty if the proxy does not report it."""
    if message.HasField("metadata_context"):
        namespaces = message.metadata_context.filter_metadata
        if BALANCING_NAMESPACE in namespaces:
            address = _text(namespaces[BALANCING_NAMESPACE], SERVED)
            if address:
                return parse_authority(address) or ""
    return parse_authority(_text(_attributes(message), "upstream.address")) or ""


def failure_of(message: ProcessingRequest) -> str:
    """How the endpoint failed, if the proxy responds in its place; empty if it does not, or does not report it.

    The proxy reports it if it is configured to send the attribute `response.code_details`.
    """
    details = _text(_attributes(message), "response.code_details")
    return details if details.startswith(_FAILURE_PREFIXES) else ""


def _attributes(message: ProcessingRequest) -> Struct | None:
    attributes: Mapping[str, Struct] = message.attributes
    return attributes.get(ATTRIBUTES)


def _text(fields: Struct | None, name: str) -> str:
    return fields.fields[name].string_value if fields is not None and name in fields.fields else ""
