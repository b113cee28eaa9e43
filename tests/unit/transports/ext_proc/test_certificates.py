"""Certificates for proxies: real handshakes over gRPC."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub, add_HealthServicer_to_server

from app.transports.ext_proc.certificates import Identity, credentials, read_identity, self_signed
from app.transports.ext_proc.health import Health
from app.transports.tls import ServerTls

TLS = Path(__file__).parents[3] / "data" / "tls"
CA = (TLS / "ca.pem").read_bytes()
NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
GUARD = 20


class Certificates:
    """The identity of servers, which may be renewed."""

    def __init__(self, identity: Identity) -> None:
        self.identity: Identity | None = identity

    def renew(self, identity: Identity | None) -> None:
        self.identity = identity

    def credentials(self) -> grpc.ServerCredentials:
        assert self.identity is not None
        return credentials(self.identity, lambda: self.identity)


def named(name: str, *, clients: bool = False) -> Identity:
    """One of the test certificates."""
    files = ServerTls(str(TLS / f"{name}.pem"), str(TLS / f"{name}.key"), str(TLS / "ca.pem") if clients else "")
    return read_identity(files)


@asynccontextmanager
async def serving(certificates: Certificates) -> AsyncIterator[int]:
    """A server that presents them; its port."""
    server = grpc.aio.server()
    add_HealthServicer_to_server(Health(lambda: True), server)
    port = server.add_secure_port("localhost:0", certificates.credentials())
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def is_accepted(port: int, authorities: bytes, *, client: bool = False, name: str = "localhost") -> bool:
    """Whether a new connection that trusts `authorities` can be used."""
    key, chain = ((TLS / "client.key").read_bytes(), (TLS / "client.pem").read_bytes()) if client else (None, None)
    trusted = grpc.ssl_channel_credentials(authorities, key, chain)
    options = (("grpc.ssl_target_name_override", name), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.secure_channel(f"localhost:{port}", trusted, options) as channel:
        try:
            response = await HealthStub(channel).Check(HealthCheckRequest(), timeout=GUARD)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return False
            raise
    return bool(response.status == HealthCheckResponse.SERVING)


# -- a generated certificate


def test_a_generated_certificate_is_self_signed() -> None:
    made = x509.load_pem_x509_certificate(self_signed(NOW).certificate)
    made.verify_directly_issued_by(made)
    assert made.subject == made.issuer
    assert made.not_valid_before_utc == NOW - dt.timedelta(hours=1)
    assert made.not_valid_after_utc == NOW + dt.timedelta(days=3650)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["pointsman", "localhost"]


def test_the_key_belongs_to_it() -> None:
    made = self_signed(NOW)
    key = load_pem_private_key(made.key, None).public_key()
    assert key == x509.load_pem_x509_certificate(made.certificate).public_key()
    assert made.client_authorities is None


def test_no_two_are_equal() -> None:
    one, other = (x509.load_pem_x509_certificate(self_signed(NOW).certificate) for _ in range(2))
    assert one.serial_number != other.serial_number
    assert one.public_key() != other.public_key()


@pytest.mark.parametrize("name", ["localhost", "pointsman"])
async def test_it_can_be_verified_by_its_names(name: str) -> None:
    made = self_signed(dt.datetime.now(dt.UTC))
    async with serving(Certificates(made)) as port:
        assert await is_accepted(port, made.certificate, name=name)


async def test_it_is_not_trusted_by_a_client_without_it() -> None:
    now = dt.datetime.now(dt.UTC)
    async with serving(Certificates(self_signed(now))) as port:
        assert not await is_accepted(port, self_signed(now).certificate)


async def test_it_is_not_valid_for_another_name() -> None:
    made = self_signed(dt.datetime.now(dt.UTC))
    async with serving(Certificates(made)) as port:
        assert not await is_accepted(port, made.certificate, name="example.com")


# -- files


def test_an_identity_is_read_from_files() -> None:
    assert named("server") == Identity(
        (TLS / "server.pem").read_bytes(), (TLS / "server.key").read_bytes(), client_authorities=None
    )
    assert named("server", clients=True).client_authorities == CA


@pytest.mark.parametrize("missing", range(3))
def test_a_file_that_can_not_be_read_is_an_os_error_that_names_it(missing: int, tmp_path: Path) -> None:
    files = [str(TLS / "server.pem"), str(TLS / "server.key"), str(TLS / "ca.pem")]
    files[missing] = str(tmp_path / "none.pem")
    with pytest.raises(OSError, match=r"none\.pem"):
        read_identity(ServerTls(*files))


# -- what a proxy sees


async def test_a_certificate_of_an_authority_is_trusted_by_it() -> None:
    async with serving(Certificates(named("server"))) as port:
        assert await is_accepted(port, CA)


@pytest.mark.parametrize("client", [False, True])
async def test_a_client_must_present_a_certificate_if_required(client: bool) -> None:
    async with serving(Certificates(named("server", clients=True))) as port:
        assert await is_accepted(port, CA, client=client) is client


async def test_a_client_certificate_of_another_authority_is_refused() -> None:
    identity = Identity(named("server").certificate, named("server").key, three_identities()[0].certificate)
    async with serving(Certificates(identity)) as port:
        assert not await is_accepted(port, CA, client=True)


async def gets(port: int, identity: Identity) -> bool:
    """Whether the next connection gets this self-signed certificate."""
    return await is_accepted(port, identity.certificate)


def three_identities() -> list[Identity]:
    now = dt.datetime.now(dt.UTC)
    return [self_signed(now) for _ in range(3)]


async def test_a_renewed_certificate_is_used_for_the_next_connection() -> None:
    first, second, third = three_identities()
    certificates = Certificates(first)
    async with serving(certificates) as port:
        assert await gets(port, first)
        certificates.renew(second)
        assert (await gets(port, second), await gets(port, first)) == (True, False)
        certificates.renew(third)
        certificates.renew(second)
        assert (await gets(port, second), await gets(port, third)) == (True, False)


async def test_a_certificate_may_be_renewed_before_the_first_connection() -> None:
    first, second, _ = three_identities()
    certificates = Certificates(first)
    certificates.renew(second)
    async with serving(certificates) as port:
        assert await gets(port, second)


def test_a_server_gets_a_renewed_certificate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asks: list[Callable[[], object]] = []
    monkeypatch.setattr(grpc, "dynamic_ssl_server_credentials", lambda _, ask, __: asks.append(ask))
    first, second, _ = three_identities()
    certificates = Certificates(first)
    certificates.credentials()
    (ask,) = asks
    found = [ask() is not None]
    for identity in (second, second, first):
        certificates.renew(identity)
        found += [ask() is not None, ask() is not None]
    assert found == [False, True, False, False, False, True, False]


async def test_without_a_current_identity_the_last_one_stays_in_use() -> None:
    first, _, _ = three_identities()
    certificates = Certificates(first)
    async with serving(certificates) as port:
        certificates.renew(None)
        assert await gets(port, first)


async def test_connections_that_are_open_stay_open() -> None:
    first, second, _ = three_identities()
    certificates = Certificates(first)
    async with serving(certificates) as port:
        trusted = grpc.ssl_channel_credentials(first.certificate)
        async with grpc.aio.secure_channel(f"localhost:{port}", trusted) as channel:
            for identity in (first, second):
                certificates.renew(identity)
                response = await HealthStub(channel).Check(HealthCheckRequest(), timeout=GUARD)
                assert response.status == HealthCheckResponse.SERVING


async def test_renewed_authorities_are_used_for_the_next_connection() -> None:
    other = Identity(named("server").certificate, named("server").key, three_identities()[0].certificate)
    certificates = Certificates(other)
    async with serving(certificates) as port:
        assert not await is_accepted(port, CA, client=True)
        certificates.renew(named("server", clients=True))
        assert await is_accepted(port, CA, client=True)


async def test_every_server_uses_a_renewed_certificate() -> None:
    first, second, _ = three_identities()
    certificates = Certificates(first)
    async with serving(certificates) as port, serving(certificates) as other:
        certificates.renew(second)
        assert [await gets(port, second), await gets(other, second)] == [True, True]


async def test_later_credentials_do_not_affect_the_first_server() -> None:
    first, second, _ = three_identities()
    certificates = Certificates(first)
    async with serving(certificates) as port:
        certificates.renew(second)
        certificates.credentials()  # as if another port were prepared and then abandoned
        assert await gets(port, second)


def test_a_mismatched_key_is_an_os_error_that_names_both_files(tmp_path: Path) -> None:
    one, other = (self_signed(dt.datetime.now(dt.UTC)) for _ in range(2))
    (tmp_path / "tls.crt").write_bytes(one.certificate)
    (tmp_path / "tls.key").write_bytes(other.key)
    with pytest.raises(OSError, match=r"tls\.crt, .*tls\.key: not a certificate and its key"):
        read_identity(ServerTls(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")))
