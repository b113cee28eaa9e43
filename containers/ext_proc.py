"""Builds what serves proxies. gRPC is imported only if it is used: it takes half a second to load."""

from __future__ import annotations

from typing import Any

from app.routing.router import Router
from app.runtime import RuntimeDirectory
from app.settings.schema import Settings
from app.transports.ext_proc.lazy import ExtProc
from app.transports.receiving import Receiver
from app.transports.tls import ServerTls
from containers import options


def service(settings: Settings, server: ExtProc, router: Router, receiver: Receiver, runtime: RuntimeDirectory) -> Any:
    """The `ExtProcService` of the configuration; None if no proxy is served.

    Raises `OSError` for certificates that can't be read.
    """
    transports = settings.transports
    if not (transports.ext_proc.enabled or transports.envoy.enabled):
        return None
    from app.transports.ext_proc.certificates import read_identity  # noqa: PLC0415
    from app.transports.ext_proc.processor import Options, Processor  # noqa: PLC0415
    from app.transports.ext_proc.server import ExtProcService  # noqa: PLC0415

    ext_proc = transports.ext_proc
    tls, files = options.ext_proc_speaks_tls(settings), ext_proc.tls
    processor = Processor(
        router=router,
        receiver=receiver,
        admission=server.server.admission,
        limits=options.ext_proc_limits(settings),
        options=Options(subset=ext_proc.subset, endpoint_scores=ext_proc.endpoint_scores),
    )
    return ExtProcService(
        listen=options.ext_proc_listen(settings, runtime),
        health=options.health_listen(settings),
        tls=tls,
        identity=read_identity(ServerTls(files.cert_file, files.key_file, files.client_ca_file))
        if tls and files.cert_file
        else None,
        message_bytes=ext_proc.limits.message_bytes,
        process=processor.process,
    )
