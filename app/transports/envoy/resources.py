"""What Envoy takes over while it runs: files that are moved to where it looks."""

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
    """The model servers. Those that Envoy can't be told are left out: it takes no host names, and no Unix sockets."""
    told = [_told(endpoint) for endpoint in endpoints if reachable(endpoint)]
    assignment = {
        "@type": f"{_API}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": POOL,
        "endpoints": [{"lb_endpoints": told}],
    }
    return {"resources": [assignment]}


def reachable(endpoint: Endpoint) -> bool:
    """Whether a proxy can be told to go there: it needs an IP address and a port."""
    return parse_authority(endpoint.authority) is not None


def certificate_resource(certificate: bytes, key: bytes) -> Mapping[str, Any]:
    """What clients are met with; PEM."""
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
    """Writes a file, which others than the user can't read, and moves it into place."""
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(orjson.dumps(content))
    new.replace(path)


def _told(endpoint: Endpoint) -> Mapping[str, Any]:
    address = {"socket_address": {"address": endpoint.address, "port_value": endpoint.port}}
    told: dict[str, Any] = {"endpoint": {"address": address, "hostname": endpoint.host_header}}
    if endpoint.tls:
        told["metadata"] = {"filter_metadata": {"envoy.transport_socket_match": {HTTPS: endpoint.address}}}
    return told
