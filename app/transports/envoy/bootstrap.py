"""The configuration that Envoy is started with, as data. Names are those of Envoy's API, version 3."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from app.transports.control_headers import DESTINATION, ONLY_ONCE, SERVED
from app.transports.envoy.config import EnvoyConfig, Files
from app.transports.listening import Address
from app.transports.tls import ClientTls

Config = Mapping[str, Any]

POOL = "pool"
"""Name of the cluster of the model servers."""

CERTIFICATE = "certificate"
"""Name of the secret that holds what clients are met with."""

HTTPS = "https"
"""Under which an endpoint of `scheme: https` is known by its address."""

STATISTICS = "router"

_API = "type.googleapis.com/envoy"
_UNLIMITED = 2**31 - 1
_NAMESPACE = "envoy.lb"


def bootstrap(behaviour: EnvoyConfig, files: Files) -> Config:
    """The whole of it."""
    return {
        "admin": {"address": {"pipe": {"path": str(files.admin), "mode": 0o600}}},
        "node": {"id": "pointsman", "cluster": "pointsman"},
        "overload_manager": _overload(),
        "static_resources": {
            "listeners": [_listener(behaviour, files)],
            "clusters": [_pool(behaviour, files), _ext_proc_cluster(behaviour)],
        },
    }


def _overload() -> Config:
    monitor = "envoy.resource_monitors.global_downstream_max_connections"
    limit = {
        "@type": f"{_API}.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": str(_UNLIMITED),  # the kernel's limit on open files comes first
    }
    return {"resource_monitors": [{"name": monitor, "typed_config": limit}]}


# -- clients


def _listener(behaviour: EnvoyConfig, files: Files) -> Config:
    chain: dict[str, Any] = {"filters": [_filter("network.http_connection_manager", _connections(behaviour))]}
    if behaviour.tls:
        chain["transport_socket"] = _downstream_tls(behaviour, files)
    return {
        "name": "router",
        "address": _address(behaviour.listen),
        "per_connection_buffer_limit_bytes": 1024 * 1024,
        "filter_chains": [chain],
    }


def _connections(behaviour: EnvoyConfig) -> Config:
    return {
        "@type": f"{_API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": STATISTICS,
        "codec_type": "AUTO",
        "use_remote_address": True,
        "generate_request_id": True,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        "max_request_headers_kb": -(-behaviour.header_bytes // 1024),
        "request_headers_timeout": _seconds(behaviour.header),
        "request_timeout": _seconds(behaviour.body),
        "stream_idle_timeout": _seconds(max(behaviour.response, behaviour.idle)),
        "common_http_protocol_options": {"idle_timeout": _seconds(behaviour.keep_alive)},
        "http_protocol_options": {
            "enable_trailers": True,
            "accept_http_10": True,
            "default_host_for_http_10": "localhost",
        },
        "route_config": {"name": "router", "virtual_hosts": [_every_host(behaviour)]},
        "http_filters": [_filter("http.ext_proc", _ext_proc(behaviour)), _filter("http.router", _router())],
    }


def _every_host(behaviour: EnvoyConfig) -> Config:
    once = {
        "cluster": POOL,
        "timeout": "0s",  # answers may take as long as they go on
        "idle_timeout": _seconds(max(behaviour.response, behaviour.idle)),
        "auto_host_rewrite": True,
    }
    marked = {"prefix": "/", "headers": [{"name": ONLY_ONCE, "present_match": True}]}
    return {
        "name": "every",
        "domains": ["*"],
        "request_body_buffer_limit": str(behaviour.body_bytes),  # kept to be sent once more
        "request_headers_to_remove": [DESTINATION, ONLY_ONCE],  # the cluster goes by the metadata
        "routes": [
            {"match": marked, "route": once},
            {"match": {"prefix": "/"}, "route": {**once, "retry_policy": _retries(behaviour)}},
        ],
    }


def _retries(behaviour: EnvoyConfig) -> Config:
    return {
        "retry_on": "connect-failure,refused-stream,reset",
        "num_retries": behaviour.retries,
        "retry_host_predicate": [_of_type("retry.host.previous_hosts.v3.PreviousHostsPredicate", "previous_hosts")],
        "host_selection_retry_max_attempts": "5",
    }


def _ext_proc(behaviour: EnvoyConfig) -> Config:
    namespaces = {"untyped": [_NAMESPACE]}
    return {
        "@type": f"{_API}.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "ext_proc", "authority": "localhost"}},
        "failure_mode_allow": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        "message_timeout": _seconds(behaviour.body + behaviour.response),
        "processing_mode": {
            "request_header_mode": "SEND",
            "request_body_mode": "FULL_DUPLEX_STREAMED",
            "request_trailer_mode": "SEND",
            "response_header_mode": "SEND",
            "response_body_mode": "FULL_DUPLEX_STREAMED",
            "response_trailer_mode": "SEND",
        },
        "response_attributes": ["upstream.address", "response.code_details"],
        "metadata_options": {"forwarding_namespaces": namespaces, "receiving_namespaces": namespaces},
    }


def _router() -> Config:
    return {"@type": f"{_API}.extensions.filters.http.router.v3.Router", "suppress_envoy_headers": True}


def _downstream_tls(behaviour: EnvoyConfig, files: Files) -> Config:
    source = {"path_config_source": {"path": str(files.certificate)}, "resource_api_version": "V3"}
    common: dict[str, Any] = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificate_sds_secret_configs": [{"name": CERTIFICATE, "sds_config": source}],
    }
    if behaviour.client_ca_file:
        common["validation_context"] = {"trusted_ca": {"filename": behaviour.client_ca_file}}
    config = {
        "@type": f"{_API}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": common,
        "require_client_certificate": bool(behaviour.client_ca_file),
    }
    return {"name": "envoy.transport_sockets.tls", "typed_config": config}


# -- model servers


def _pool(behaviour: EnvoyConfig, files: Files) -> Config:
    source = {"path_config_source": {"path": str(files.endpoints)}, "resource_api_version": "V3"}
    plain = {"name": "plain", "match": {}, "transport_socket": _raw_buffer()}
    return {
        "name": POOL,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "connect_timeout": _seconds(behaviour.connect),
        "per_connection_buffer_limit_bytes": 1024 * 1024,
        "circuit_breakers": _no_limits(),
        "typed_extension_protocol_options": _protocol(
            {"explicit_http_config": {"http_protocol_options": {"enable_trailers": True}}},
            idle_timeout=_seconds(behaviour.endpoint_keep_alive),
        ),
        "outlier_detection": {
            "consecutive_5xx": 0,  # an engine's own errors say nothing about the way to it
            "enforcing_consecutive_5xx": 0,
            "enforcing_consecutive_gateway_failure": 0,
            "enforcing_success_rate": 0,
            "enforcing_failure_percentage": 0,
            "split_external_local_origin_errors": True,
            "consecutive_local_origin_failure": 3,
            "enforcing_consecutive_local_origin_failure": 100,
            "base_ejection_time": "2s",
            "max_ejection_time": "30s",
            "max_ejection_percent": 50,
        },
        "load_balancing_policy": {"policies": [_policy("override_host", _override_host())]},
        "transport_socket_matches": [*(_https(behaviour.endpoint_tls, address) for address in behaviour.https), plain],
    }


def _override_host() -> Config:
    def key(name: str) -> Config:
        return {"key": _NAMESPACE, "path": [{"key": name}]}

    round_robin = {"@type": f"{_API}.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
    return {
        "@type": f"{_API}.extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": key(DESTINATION)}],
        "selected_host_key": key(SERVED),
        "fallback_policy": {"policies": [_policy("round_robin", round_robin)]},
    }


def _https(tls: ClientTls, address: str) -> Config:
    """How one endpoint is met: Envoy compares a certificate with an IP address only where that is written out."""
    return {"name": address, "match": {HTTPS: address}, "transport_socket": _upstream_tls(tls, address)}


def _upstream_tls(tls: ClientTls, address: str) -> Config:
    context: dict[str, Any] = {
        "trusted_ca": {"filename": tls.ca_file or _system_ca()},
        "match_typed_subject_alt_names": [{"san_type": "IP_ADDRESS", "matcher": {"exact": address}}],
    }
    if tls.insecure_skip_verify:
        context = {"trust_chain_verification": "ACCEPT_UNTRUSTED"}
    common: dict[str, Any] = {"alpn_protocols": ["http/1.1"], "validation_context": context}
    if tls.cert_file:
        common["tls_certificates"] = [
            {"certificate_chain": {"filename": tls.cert_file}, "private_key": {"filename": tls.key_file}}
        ]
    config = {
        "@type": f"{_API}.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "common_tls_context": common,
    }
    return {"name": "envoy.transport_sockets.tls", "typed_config": config}


def _ext_proc_cluster(behaviour: EnvoyConfig) -> Config:
    endpoint = {"endpoint": {"address": _address(behaviour.ext_proc)}}
    return {
        "name": "ext_proc",
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": _no_limits(),
        "typed_extension_protocol_options": _protocol({"explicit_http_config": {"http2_protocol_options": {}}}),
        "load_assignment": {"cluster_name": "ext_proc", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


# -- parts


def _no_limits() -> Config:
    limits = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {"thresholds": [dict.fromkeys(limits, _UNLIMITED)]}


def _protocol(options: Config, **common: str) -> Config:
    kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    whole = {"@type": f"type.googleapis.com/{kind}", **options}
    return {kind: {**whole, "common_http_protocol_options": common} if common else whole}


def _filter(name: str, config: Config) -> Config:
    return {"name": f"envoy.filters.{name}", "typed_config": config}


def _policy(name: str, config: Config) -> Config:
    return {"typed_extension_config": {"name": f"envoy.load_balancing_policies.{name}", "typed_config": config}}


def _of_type(kind: str, name: str) -> Config:
    return {"name": f"envoy.retry_host_predicates.{name}", "typed_config": {"@type": f"{_API}.extensions.{kind}"}}


def _raw_buffer() -> Config:
    kind = f"{_API}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
    return {"name": "envoy.transport_sockets.raw_buffer", "typed_config": {"@type": kind}}


def _address(address: Address) -> Config:
    if address.socket is not None:
        return {"pipe": {"path": address.socket}}
    return {"socket_address": {"address": address.bind, "port_value": address.port}}


def _seconds(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _system_ca() -> str:
    return ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
