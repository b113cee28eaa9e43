"""The server certificate for proxies: from files, or generated for this process."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.transports.tls import ServerTls, load_certificate

VALIDITY = dt.timedelta(days=3650)
NAME = "pointsman"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, and the authorities for client certificates, all in PEM."""

    certificate: bytes
    key: bytes
    client_authorities: bytes | None = None
    """A proxy must present a certificate signed by one of them; None accepts any client."""


def self_signed(now: dt.datetime) -> Identity:
    """A self-signed certificate, valid for ten years. It encrypts the connection, but does not prove who we are."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, NAME), x509.NameAttribute(NameOID.COMMON_NAME, NAME)]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))  # clocks may differ
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def read_identity(tls: ServerTls) -> Identity:
    """Reads the files. Raises `OSError`, also if the key does not belong to the certificate."""
    load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls.cert_file, tls.key_file)
    authorities = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    return Identity(Path(tls.cert_file).read_bytes(), Path(tls.key_file).read_bytes(), authorities)


def credentials(first: Identity, current: Callable[[], Identity | None]) -> grpc.ServerCredentials:
    """Credentials for a gRPC server that begins with `first`.

    `current` is asked at each connection for the identity from then on; None for no change. Whether proxies must show
    a certificate follows from `first` and stays as it is.
    """
    shown = first

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        identity = current()
        if identity is None or identity is shown:
            return None
        shown = identity
        return _configuration(identity)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(first),
        changed,  # type: ignore[arg-type]  # None: nothing has changed
        first.client_authorities is not None,
    )


def _configuration(identity: Identity) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(identity.key, identity.certificate)], identity.client_authorities
    )
