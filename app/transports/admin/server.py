"""The admin port: probes and metrics for all, insight for those allowed."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from app.transports.listening import Address, Listener, Opened

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class AdminListen:
    """Where to listen, and who may look."""

    bind: str
    port: int
    allow_from: Sequence[str]
    """Networks that may read `/debug` and use `/-/reload`."""

    @property
    def address(self) -> Address:
        """Where to listen."""
        return Address(self.bind, self.port)


async def _no_reload() -> tuple[str, bool]:
    return "nothing is reloaded here\n", False


@dataclass(frozen=True, slots=True)
class Insight:
    """What the admin port shows, each asked for anew."""

    readiness: Callable[[], Mapping[str, bool]]
    """Conditions by name; all must hold."""
    metrics: Callable[[], bytes]
    """The Prometheus page."""
    endpoints: Callable[[], Sequence[Mapping[str, Any]]]
    """The endpoints' states."""
    configuration: Callable[[], str]
    """The effective configuration as YAML."""
    reload: Callable[[], Awaitable[tuple[str, bool]]] = _no_reload
    """Loads the configuration anew: what there is to say, and whether it holds now."""
    remarks: Callable[[], Sequence[str]] = tuple
    """Lines that `/readyz?verbose` says besides its conditions."""


class AdminServer:
    """Serves `/healthz`, `/readyz`, `/metrics`, `/debug/…` and `/-/reload`."""

    def __init__(self, listen: AdminListen, insight: Insight) -> None:
        self._insight = insight
        self._runner: web.AppRunner | None = None
        self.listener = Listener(listen.address, self._open)
        """What moves it to another address."""
        self.allow_from(listen.allow_from)

    @property
    def port(self) -> int:
        """The port in use, once started."""
        return self.listener.port

    def allow_from(self, networks: Sequence[str]) -> None:
        """Who may read `/debug` and use `/-/reload` from now on."""
        self._allowed = [ipaddress.ip_network(network, strict=False) for network in networks]

    async def start(self) -> None:
        """Opens the port. Raises `OSError` if it can't."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/debug/endpoints", self._debug(self._endpoints))
        app.router.add_get("/debug/config", self._debug(self._config))
        app.router.add_post("/-/reload", self._debug(self._reload))
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await self.listener.start()

    async def stop(self) -> None:
        """Closes the port."""
        await self.listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _open(self, address: Address) -> Opened:
        assert self._runner is not None  # noqa: S101 - the listener is started with it
        site = web.TCPSite(self._runner, address.bind, address.port)
        try:
            await site.start()
        except OSError:
            await site.stop()
            raise
        server = site._server  # noqa: SLF001 - aiohttp tells a runner's addresses together, and not which site has which
        port: int = server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return Opened(port, site.stop)

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        conditions = self._insight.readiness()
        ready = all(conditions.values())
        lines = [f"[{'+' if holds else '-'}] {name}" for name, holds in conditions.items()]
        verdict = "ready" if ready else "not ready"
        lines += self._insight.remarks()
        shown = [*lines, verdict] if "verbose" in request.query or not ready else [verdict]
        return web.Response(status=200 if ready else 503, text="\n".join(shown) + "\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._insight.metrics(), headers={"content-type": METRICS_TYPE})

    async def _endpoints(self) -> web.Response:
        body = orjson.dumps({"endpoints": self._insight.endpoints()}, option=orjson.OPT_INDENT_2)
        return web.Response(body=body + b"\n", content_type="application/json")

    async def _reload(self) -> web.Response:
        text, done = await self._insight.reload()
        return web.Response(status=200 if done else 409, text=text)

    async def _config(self) -> web.Response:
        return web.Response(text=self._insight.configuration(), content_type="application/yaml")

    def _debug(self, show: Callable[[], Any]) -> Callable[[web.Request], Any]:
        async def handle(request: web.Request) -> web.Response:
            if not self._may_look(request.remote or ""):
                return web.Response(status=403, text="this address is not in transports.admin.allowFrom\n")
            response: web.Response = await show()
            return response

        return handle

    def _may_look(self, remote: str) -> bool:
        try:
            address = ipaddress.ip_address(remote)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self._allowed)
