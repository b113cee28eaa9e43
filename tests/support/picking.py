"""The application in this process, with the Endpoint Picker Protocol alone, on a free port and without TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import yaml

from app.catalogue.catalogue import Catalogue
from app.settings.layers import Sources
from containers.application import ApplicationContainer
from containers.assembly import check

CATALOGUE = Catalogue()


@asynccontextmanager
async def picking(
    configuration: Mapping[str, Any], *, ext_proc: Mapping[str, Any] | None = None, **instead: object
) -> AsyncIterator[ApplicationContainer]:
    """A running application; `port_of` says where it is called. `ext_proc` adds to `transports.extProc`, `instead` are
    objects in place of providers, by name."""
    here: Mapping[str, Any] = {"bind": "127.0.0.1", "port": 0}
    picker = {**here, "enabled": True, "healthPort": 0, "tls": {"enabled": False}, **(ext_proc or {})}
    whole = {
        "observability": {"logging": {"level": "error"}},
        "reload": {"watch": False},
        **configuration,
        "transports": {"http": {"enabled": False}, "admin": here, "extProc": picker},
    }
    container = check(Sources(text=yaml.safe_dump(whole)), CATALOGUE).container(**instead)
    lifecycle = container.lifecycle()
    try:
        await lifecycle.start()
        yield container
    finally:
        await lifecycle.stop()


def port_of(container: ApplicationContainer) -> int:
    """The port that proxies call."""
    return container.ext_proc_server().port
