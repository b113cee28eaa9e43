"""TLS for clients and for connections to endpoints."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Paths of PEM files; empty for none."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    """Authorities for client certificates, which are required if this is set."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How endpoints are verified, and our client certificate. Paths of PEM files; empty for none."""

    ca_file: str = ""
    """Authorities to trust instead of the system's."""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False
    """Trust any certificate."""


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """The context of a listener, for HTTP/1.1 only. Raises `OSError` for files that can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, tls.cert_file, tls.key_file)
    if tls.client_ca_file:
        _load_authorities(context, tls.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """The context of connections to endpoints. Raises `OSError` for files that can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file:
        _load_authorities(context, tls.ca_file)
    else:
        context.load_default_certs()
    if tls.cert_file:
        load_certificate(context, tls.cert_file, tls.key_file)
    return context


def load_certificate(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    """Loads the certificate that new connections present. Raises `OSError` that names the files."""
    try:
        context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # it does not name the file
        raise _named(error, f"{cert_file}, {key_file}", "not a certificate and its key in PEM") from error


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except OSError as error:
        raise _named(error, file, "not a certificate in PEM") from error


def _named(error: OSError, files: str, mismatch: str) -> OSError:
    reason = mismatch if isinstance(error, ssl.SSLError) else error.strerror
    return OSError(error.errno, f"{files}: {reason}")
