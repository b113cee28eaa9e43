"""The admin port: probes and metrics for everybody, debug pages and reload for the networks allowed."""

from __future__ import annotations

import ipaddress
from asyncio import Protocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class AdminPages:
    """What one configuration shows, each asked for when the page is."""

    allow_from: Sequence[str]
    """Networks that may read `/debug` and use `/-/reload`."""
    endpoints: Callable[[], Sequence[Mapping[str, Any]]]
    """The endpoints' states."""
    configuration: Callable[[], str]
    """The effective configuration as YAML."""


async def _no_reload() -> tuple[str, bool]:
    return "nothing is reloaded here\n", False


@dataclass(frozen=True, slots=True)
class ProcessPages:
    """What the process shows."""

    readiness: Callable[[], Mapping[str, bool]]
    """Conditions by name; all must hold."""
    metrics: Callable[[], bytes]
    """The Prometheus page."""
    reload: Callable[[], Awaitable[tuple[str, bool]]] = _no_reload
    """Reloads the configuration; returns a text and whether the configuration is in effect now."""
    remarks: Callable[[], Sequence[str]] = tuple
    """Lines that `/readyz?verbose` has besides the conditions."""


class AdminServer:
    """Serves `/healthz`, `/readyz`, `/metrics`, `/debug/…` and `/-/reload`."""

    def __init__(self, process: ProcessPages, pages: Callable[[], AdminPages]) -> None:
        """`pages` gives those of the current configuration."""
        self._process = process
        self._pages = pages
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Must be called before the first connection."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/debug/endpoints", self._debug(self._endpoints))
        app.router.add_get("/debug/config", self._debug(self._config))
        app.router.add_post("/-/reload", self._debug(self._reload))
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()

    async def stop(self) -> None:
        """Closes the connections. Stop listening first."""
        if self._runner is not None:
            await self._runner.cleanup()

    def connection(self) -> Protocol:
        """The protocol of a new connection."""
        assert self._runner is not None  # noqa: S101 - it listens only once it has started
        assert self._runner.server is not None  # noqa: S101
        return self._runner.server()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        conditions = self._process.readiness()
        ready = all(conditions.values())
        lines = [f"[{'+' if holds else '-'}] {name}" for name, holds in conditions.items()]
        verdict = "ready" if ready else "not ready"
        lines += self._process.remarks()
        shown = [*lines, verdict] if "verbose" in request.query or not ready else [verdict]
        return web.Response(status=200 if ready else 503, text="\n".join(shown) + "\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._process.metrics(), headers={"content-type": METRICS_TYPE})

    async def _endpoints(self) -> web.Response:
        body = orjson.dumps({"endpoints": self._pages().endpoints()}, option=orjson.OPT_INDENT_2)
        return web.Response(body=body + b"\n", content_type="application/json")

    async def _reload(self) -> web.Response:
        text, done = await self._process.reload()
        return web.Response(status=200 if done else 409, text=text)

    async def _config(self) -> web.Response:
        return web.Response(text=self._pages().configuration(), content_type="application/yaml")

    def _debug(self, show: Callable[[], Any]) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            if not _is_allowed(request.remote or "", self._pages().allow_from):
                return web.Response(status=403, text="this address is not in transports.admin.allowFrom\n")
            response: web.Response = await show()
            return response

        return handle


def _is_allowed(remote: str, networks: Sequence[str]) -> bool:
    try:
        address = ipaddress.ip_address(remote)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in ipaddress.ip_network(network, strict=False) for network in networks)
