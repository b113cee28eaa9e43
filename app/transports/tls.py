"""TLS on both sides: ours for clients, and to the endpoints."""

from __future__ import annotations

import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Paths of PEM files; an empty one is not used."""

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    """Authorities of the certificates that clients must show."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How endpoints are verified, and what we show them; an empty path is not used."""

    ca_file: str = ""
    """Authorities to trust instead of the system's."""
    cert_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False
    """Trust any certificate."""


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """For a listener; HTTP/1.1 only. Raises `OSError`, an `ssl.SSLError` among them, for files that can't be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, tls.cert_file, tls.key_file)
    if tls.client_ca_file:
        _load_authorities(context, tls.client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """For connections to endpoints. Raises `OSError` for files that can't be used."""
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
    """What connections from now on show. Raises `OSError` that names the files."""
    try:
        context.load_cert_chain(cert_file, key_file)
    except OSError as error:  # it does not say which
        raise _named(error, f"{cert_file}, {key_file}", "they are no certificate and key that go together") from error


def _load_authorities(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except OSError as error:
        raise _named(error, file, "it holds no certificate in PEM") from error


def _named(error: OSError, files: str, mismatch: str) -> OSError:
    reason = mismatch if isinstance(error, ssl.SSLError) else error.strerror
    return OSError(error.errno, f"{files}: {reason}")
