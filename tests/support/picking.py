"""The application in this process, with only the Endpoint Picker Protocol, on a free port and without TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import yaml

from app.settings.layers import Sources
from containers.application import Application, catalogue, load

CATALOGUE = catalogue()


@asynccontextmanager
async def picking(
    configuration: Mapping[str, Any], *, ext_proc: Mapping[str, Any] | None = None, **instead: object
) -> AsyncIterator[Application]:
    """A running application. `port_of` returns its port. `ext_proc` is merged into `transports.extProc`, and `instead`
    overrides providers of the generation, by name."""
    here: Mapping[str, Any] = {"bind": "127.0.0.1", "port": 0}
    picker = {**here, "enabled": True, "healthPort": 0, "tls": {"enabled": False}, **(ext_proc or {})}
    whole = {
        "observability": {"logging": {"level": "error"}},
        "reload": {"watch": False},
        **configuration,
        "transports": {"http": {"enabled": False}, "admin": here, "extProc": picker},
    }
    application = Application(load(Sources(text=yaml.safe_dump(whole)), CATALOGUE))
    for name, fake in instead.items():
        application.generation.providers[name].override(fake)
    application.verify()
    runner = application.runner()
    try:
        await runner.start()
        yield application
    finally:
        await runner.stop()


def port_of(application: Application) -> int:
    """The port for proxies."""
    port: int = application.process.ext_proc_server().server.port
    return port
