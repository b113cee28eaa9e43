"""Builds what speaks gRPC. A module of its own, imported only where it is used: gRPC takes its time to load."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

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
