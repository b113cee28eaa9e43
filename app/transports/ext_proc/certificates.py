"""The certificate that proxies are met with: one of one's own, or one made for this process."""

from __future__ import annotations

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.transports.tls import ServerTls, load_certificate

VALID = dt.timedelta(days=3650)
NAME = "pointsman"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its key, and who may connect; PEM."""

    certificate: bytes
    key: bytes
    client_authorities: bytes | None = None
    """Of which proxies must show a certificate; None lets all in."""


def self_signed(now: dt.datetime) -> Identity:
    """A certificate that vouches for itself: it hides what is said, and proves nothing. Valid for ten years."""
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
        .not_valid_before(now - dt.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME), x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def read_identity(tls: ServerTls) -> Identity:
    """The certificate of these files. Raises `OSError`, also for a key that does not go with it."""
    load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls.cert_file, tls.key_file)
    authorities = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    return Identity(Path(tls.cert_file).read_bytes(), Path(tls.key_file).read_bytes(), authorities)


class Certificates:
    """What proxies are met with; may be renewed at any time, and counts for connections from then on."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def renew(self, identity: Identity) -> None:
        """Another certificate from now on."""
        self._identity = identity

    def credentials(self) -> grpc.ServerCredentials:
        """For a gRPC server, which asks at each connection whether they have changed."""
        told = self._identity

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal told
            identity = self._identity
            if identity is told:
                return None
            told = identity
            return _configuration(identity)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(told),
            changed,  # type: ignore[arg-type]  # None says that nothing has changed
            told.client_authorities is not None,
        )


def _configuration(identity: Identity) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(identity.key, identity.certificate)], identity.client_authorities
    )
