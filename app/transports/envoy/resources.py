"""Resources that Envoy reloads while it runs, from files that are moved into place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from app.domain.addresses import parse_authority
from app.domain.endpoint import Endpoint
from app.transports.envoy.bootstrap import CERTIFICATE, HTTPS, POOL

_API = "type.googleapis.com/envoy"


def endpoints_resource(endpoints: Iterable[Endpoint]) -> Mapping[str, Any]:
    """The model servers, without those that are not `reachable`."""
    lb_endpoints = [_lb_endpoint(endpoint) for endpoint in endpoints if reachable(endpoint)]
    assignment = {
        "@type": f"{_API}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": POOL,
        "endpoints": [{"lb_endpoints": lb_endpoints}],
    }
    return {"resources": [assignment]}


def reachable(endpoint: Endpoint) -> bool:
    """Whether a proxy can reach it: by IP address and port, not by a host name or a Unix socket."""
    return parse_authority(endpoint.authority) is not None


def certificate_resource(certificate: bytes, key: bytes) -> Mapping[str, Any]:
    """The server certificate and its key, both in PEM."""
    secret = {
        "@type": f"{_API}.extensions.transport_sockets.tls.v3.Secret",
        "name": CERTIFICATE,
        "tls_certificate": {
            "certificate_chain": {"inline_string": certificate.decode()},
            "private_key": {"inline_string": key.decode()},
        },
    }
    return {"resources": [secret]}


def put(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file that only the user can read, and moves it into place."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(orjson.dumps(content))
    new.replace(path)


def _lb_endpoint(endpoint: Endpoint) -> Mapping[str, Any]:
    address = {"socket_address": {"address": endpoint.address, "port_value": endpoint.port}}
    lb_endpoint: dict[str, Any] = {"endpoint": {"address": address, "hostname": endpoint.host_header}}
    if endpoint.tls:
        lb_endpoint["metadata"] = {"filter_metadata": {"envoy.transport_socket_match": {HTTPS: endpoint.address}}}
    return lb_endpoint
