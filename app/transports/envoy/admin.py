"""Asks Envoy's admin pages, over the Unix socket that nobody else sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import orjson

from app.transports.envoy.bootstrap import STATISTICS

_ACTIVE = f"http.{STATISTICS}.downstream_rq_active"


class EnvoyAdmin:
    """One Envoy's. Every method raises `OSError`, an `aiohttp.ClientError` among them, if it does not answer."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def is_ready(self) -> bool:
        """Whether it serves."""
        try:
            return (await self._ask("GET", "/ready"))[0] == 200  # noqa: PLR2004
        except (OSError, aiohttp.ClientError):
            return False

    async def port(self) -> int:
        """Where it listens for clients; 0 for a Unix socket."""
        listeners = orjson.loads((await self._ask("GET", "/listeners?format=json"))[1])
        address: Any = listeners["listener_statuses"][0]["local_address"]
        return int(address.get("socket_address", {}).get("port_value", 0))

    async def requests(self) -> int:
        """Requests that are under way."""
        stats = orjson.loads((await self._ask("GET", f"/stats?format=json&filter=^{_ACTIVE}$"))[1])["stats"]
        return int(stats[0]["value"]) if stats else 0

    async def drain(self) -> None:
        """It takes no more connections, and closes each after the answers that are under way."""
        await self._ask("POST", "/healthcheck/fail")
        await self._ask("POST", "/drain_listeners")

    async def _ask(self, method: str, path: str) -> tuple[int, bytes]:
        timeout = aiohttp.ClientTimeout(total=5)
        connector = aiohttp.UnixConnector(str(self._socket))
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(method, f"http://envoy{path}") as answer,
        ):
            return answer.status, await answer.read()
