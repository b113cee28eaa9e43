"""The bootstrap configuration of Envoy, as data, by version 3 of its API."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from app.transports.control_headers import DESTINATION, ONLY_ONCE, SERVED
from app.transports.envoy.config import EnvoyConfig, Files
from app.transports.listening import Address
from app.transports.tls import ClientTls

Json = Mapping[str, Any]

POOL = "pool"
"""Name of the cluster of the model servers."""

CERTIFICATE = "certificate"
"""Name of the secret that holds the server certificate."""

HTTPS = "https"
"""Metadata key that matches an endpoint of `scheme: https` to its transport socket; the value is its IP address."""

STAT_PREFIX = "router"

_API = "type.googleapis.com/envoy"
_UNLIMITED = 2**31 - 1
_NAMESPACE = "envoy.lb"


def bootstrap(config: EnvoyConfig, files: Files) -> Json:
    """The whole bootstrap configuration."""
    return {
        "admin": {"address": {"pipe": {"path": str(files.admin), "mode": 0o600}}},
        "node": {"id": "pointsman", "cluster": "pointsman"},
        "overload_manager": _overload(),
        "static_resources": {
            "listeners": [_listener(config, files)],
            "clusters": [_pool(config, files), _ext_proc_cluster(config)],
        },
    }


def _overload() -> Json:
    monitor = "envoy.resource_monitors.global_downstream_max_connections"
    limit = {
        "@type": f"{_API}.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": str(_UNLIMITED),  # the limit on open files is lower
    }
    return {"resource_monitors": [{"name": monitor, "typed_config": limit}]}


# -- clients


def _listener(config: EnvoyConfig, files: Files) -> Json:
    chain: dict[str, Any] = {"filters": [_filter("network.http_connection_manager", _connections(config))]}
    if config.tls:
        chain["transport_socket"] = _downstream_tls(config, files)
    return {
        "name": "router",
        "address": _address(config.listen),
        "per_connection_buffer_limit_bytes": 1024 * 1024,
        "filter_chains": [chain],
    }


def _connections(config: EnvoyConfig) -> Json:
    return {
        "@type": f"{_API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": STAT_PREFIX,
        "codec_type": "AUTO",
        "use_remote_address": True,
        "generate_request_id": True,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        "max_request_headers_kb": -(-config.header_bytes // 1024),
        "request_headers_timeout": _seconds(config.header),
        "request_timeout": _seconds(config.body),
        "stream_idle_timeout": _seconds(max(config.response, config.idle)),
        "common_http_protocol_options": {"idle_timeout": _seconds(config.keep_alive)},
        "http_protocol_options": {
            "enable_trailers": True,
            "accept_http_10": True,
            "default_host_for_http_10": "localhost",
        },
        "route_config": {"name": "router", "virtual_hosts": [_virtual_host(config)]},
        "http_filters": [_filter("http.ext_proc", _ext_proc(config)), _filter("http.router", _router())],
    }


def _virtual_host(config: EnvoyConfig) -> Json:
    route = {
        "cluster": POOL,
        "timeout": "0s",  # a response may take any time as long as data flows
        "idle_timeout": _seconds(max(config.response, config.idle)),
        "auto_host_rewrite": True,
    }
    marked = {"prefix": "/", "headers": [{"name": ONLY_ONCE, "present_match": True}]}
    return {
        "name": "every",
        "domains": ["*"],
        "request_body_buffer_limit": str(config.body_bytes),  # buffered for retries
        "request_headers_to_remove": [DESTINATION, ONLY_ONCE],  # the cluster reads the metadata instead
        "routes": [
            {"match": marked, "route": route},
            {"match": {"prefix": "/"}, "route": {**route, "retry_policy": _retries(config)}},
        ],
    }


def _retries(config: EnvoyConfig) -> Json:
    return {
        "retry_on": "connect-failure,refused-stream,reset",
        "num_retries": config.retries,
        "retry_host_predicate": [_of_type("retry.host.previous_hosts.v3.PreviousHostsPredicate", "previous_hosts")],
        "host_selection_retry_max_attempts": "5",
    }


def _ext_proc(config: EnvoyConfig) -> Json:
    namespaces = {"untyped": [_NAMESPACE]}
    return {
        "@type": f"{_API}.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "ext_proc", "authority": "localhost"}},
        "failure_mode_allow": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        "message_timeout": _seconds(config.body + config.response),
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


def _router() -> Json:
    return {"@type": f"{_API}.extensions.filters.http.router.v3.Router", "suppress_envoy_headers": True}


def _downstream_tls(config: EnvoyConfig, files: Files) -> Json:
    source = {"path_config_source": {"path": str(files.certificate)}, "resource_api_version": "V3"}
    common: dict[str, Any] = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
        "tls_certificate_sds_secret_configs": [{"name": CERTIFICATE, "sds_config": source}],
    }
    if config.client_ca_file:
        common["validation_context"] = {"trusted_ca": {"filename": config.client_ca_file}}
    context = {
        "@type": f"{_API}.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": common,
        "require_client_certificate": bool(config.client_ca_file),
    }
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}


# -- model servers


def _pool(config: EnvoyConfig, files: Files) -> Json:
    source = {"path_config_source": {"path": str(files.endpoints)}, "resource_api_version": "V3"}
    plain = {"name": "plain", "match": {}, "transport_socket": _raw_buffer()}
    return {
        "name": POOL,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "connect_timeout": _seconds(config.connect),
        "per_connection_buffer_limit_bytes": 1024 * 1024,
        "circuit_breakers": _no_limits(),
        "typed_extension_protocol_options": _protocol(
            {"explicit_http_config": {"http_protocol_options": {"enable_trailers": True}}},
            idle_timeout=_seconds(config.endpoint_keep_alive),
        ),
        "outlier_detection": {
            "consecutive_5xx": 0,  # an engine's own errors say nothing about the connection to it
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
        "transport_socket_matches": [*(_https(config.endpoint_tls, address) for address in config.https), plain],
    }


def _override_host() -> Json:
    def key(name: str) -> Json:
        return {"key": _NAMESPACE, "path": [{"key": name}]}

    round_robin = {"@type": f"{_API}.extensions.load_balancing_policies.round_robin.v3.RoundRobin"}
    return {
        "@type": f"{_API}.extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"metadata": key(DESTINATION)}],
        "selected_host_key": key(SERVED),
        "fallback_policy": {"policies": [_policy("round_robin", round_robin)]},
    }


def _https(tls: ClientTls, address: str) -> Json:
    """The TLS settings for one endpoint: Envoy verifies an IP address only if it is written in the configuration."""
    return {"name": address, "match": {HTTPS: address}, "transport_socket": _upstream_tls(tls, address)}


def _upstream_tls(tls: ClientTls, address: str) -> Json:
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


def _ext_proc_cluster(config: EnvoyConfig) -> Json:
    endpoint = {"endpoint": {"address": _address(config.ext_proc)}}
    return {
        "name": "ext_proc",
        "type": "STATIC",
        "connect_timeout": "1s",
        "circuit_breakers": _no_limits(),
        "typed_extension_protocol_options": _protocol({"explicit_http_config": {"http2_protocol_options": {}}}),
        "load_assignment": {"cluster_name": "ext_proc", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


# -- parts


def _no_limits() -> Json:
    limits = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    return {"thresholds": [dict.fromkeys(limits, _UNLIMITED)]}


def _protocol(options: Json, **common: str) -> Json:
    kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    whole = {"@type": f"type.googleapis.com/{kind}", **options}
    return {kind: {**whole, "common_http_protocol_options": common} if common else whole}


def _filter(name: str, config: Json) -> Json:
    return {"name": f"envoy.filters.{name}", "typed_config": config}


def _policy(name: str, config: Json) -> Json:
    return {"typed_extension_config": {"name": f"envoy.load_balancing_policies.{name}", "typed_config": config}}


def _of_type(kind: str, name: str) -> Json:
    return {"name": f"envoy.retry_host_predicates.{name}", "typed_config": {"@type": f"{_API}.extensions.{kind}"}}


def _raw_buffer() -> Json:
    kind = f"{_API}.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
    return {"name": "envoy.transport_sockets.raw_buffer", "typed_config": {"@type": kind}}


def _address(address: Address) -> Json:
    if address.socket is not None:
        return {"pipe": {"path": address.socket}}
    return {"socket_address": {"address": address.bind, "port_value": address.port}}


def _seconds(seconds: float) -> str:
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _system_ca() -> str:
    return ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt"
