"""Simulated model servers in this process."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.endpoint import Endpoint
from app.simulation.server import ServerOptions, SimulatedServer


class SimulatedFleet:
    """Servers that start and stop together."""

    def __init__(self, servers: Sequence[ServerOptions]) -> None:
        self._servers = [SimulatedServer(options) for options in servers]

    async def start(self) -> None:
        """Starts all. Raises `OSError` if one can't listen."""
        for server in self._servers:
            await server.start()

    async def stop(self) -> None:
        """Stops all."""
        for server in self._servers:
            await server.stop()

    def endpoints(self) -> Sequence[Endpoint]:
        """Where they listen, once started."""
        return [Endpoint(one.options.name, one.options.host, one.port) for one in self._servers]
