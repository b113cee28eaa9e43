"""Builds what speaks gRPC. A module of its own, imported only where it is used: gRPC takes its time to load."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from app.reload import Step
from app.settings.schema import Settings
from app.transports.ext_proc.certificates import Certificates, Identity, read_identity, self_signed
from app.transports.ext_proc.health import Health
from app.transports.ext_proc.processor import Options, Processor
from app.transports.ext_proc.server import ExtProcServer
from app.transports.tls import ServerTls
from containers import options, parts

if TYPE_CHECKING:
    from containers.application import ApplicationContainer


def server_of(app: ApplicationContainer) -> ExtProcServer:
    """The server of the Endpoint Picker Protocol. Raises `OSError` for certificates that can't be read."""
    settings: Settings = app.settings()
    admission = app.ext_proc_admission()
    identity = identity_of(settings)
    return ExtProcServer(
        listen=app.ext_proc_listen(),
        listen_for_health=options.health_listen(settings),
        processor=Processor(router=app.router(), admission=admission, options=options_of(settings)),
        health=Health(lambda: parts.is_ready(app)),
        admission=admission,
        certificates=None if identity is None else Certificates(identity),
        message_bytes=settings.transports.ext_proc.limits.message_bytes,
    )


def step_of(app: ApplicationContainer, settings: Settings) -> Step:
    """From what the server runs on to other `settings`."""
    server = app.ext_proc_server()
    identity: Identity | None = None
    close: Callable[[], Awaitable[None]] | None = None

    async def prepare() -> None:
        nonlocal identity
        if settings.transports.ext_proc.tls.cert_file:
            identity = identity_of(settings)
        await server.listener.prepare(options.ext_proc_listen(settings, app.runtime_directory()))

    def commit() -> None:
        nonlocal close
        close = server.listener.commit()
        app.ext_proc_admission().limits = options.ext_proc_limits(settings)
        server.processor.options = options_of(settings)
        if server.certificates is not None and identity is not None:
            server.certificates.renew(identity)

    async def retire() -> None:
        if close is not None:
            await close()

    return Step("ext_proc", prepare, server.listener.abandon, commit, retire)


def identity_of(settings: Settings) -> Identity | None:
    """The certificate that proxies are met with; None where it is spoken plainly. Raises `OSError`."""
    tls = settings.transports.ext_proc.tls
    if not options.ext_proc_speaks_tls(settings):
        return None
    if not tls.cert_file:
        return self_signed(dt.datetime.now(dt.UTC))
    return read_identity(ServerTls(tls.cert_file, tls.key_file, tls.client_ca_file))


def options_of(settings: Settings) -> Options:
    """What is heard from proxies and told to them."""
    ext_proc = settings.transports.ext_proc
    return Options(subset=ext_proc.subset, endpoint_scores=ext_proc.endpoint_scores)
