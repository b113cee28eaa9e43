"""A client for Envoy's admin interface, over a private Unix socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import orjson

from app.transports.envoy.bootstrap import STAT_PREFIX

_ACTIVE = f"http.{STAT_PREFIX}.downstream_rq_active"


class EnvoyAdmin:
    """One Envoy. If it does not respond, every method but `is_ready` raises `OSError` or `aiohttp.ClientError`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def is_ready(self) -> bool:
        """Whether Envoy is ready; False if it does not respond."""
        try:
            return (await self._request("GET", "/ready"))[0] == 200  # noqa: PLR2004
        except (OSError, aiohttp.ClientError):
            return False

    async def port(self) -> int:
        """The port for clients; 0 for a Unix socket."""
        listeners = orjson.loads((await self._request("GET", "/listeners?format=json"))[1])
        address: Any = listeners["listener_statuses"][0]["local_address"]
        return int(address.get("socket_address", {}).get("port_value", 0))

    async def requests(self) -> int:
        """The number of requests in flight."""
        stats = orjson.loads((await self._request("GET", f"/stats?format=json&filter=^{_ACTIVE}$"))[1])["stats"]
        return int(stats[0]["value"]) if stats else 0

    async def drain(self) -> None:
        """Accepts no more connections, and closes each one after its responses in flight."""
        await self._request("POST", "/healthcheck/fail")
        await self._request("POST", "/drain_listeners")

    async def _request(self, method: str, path: str) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=5)
        connector = aiohttp.UnixConnector(str(self._socket))
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, f"http://envoy{path}") as response,
        ):
            return response.status, await response.read()
