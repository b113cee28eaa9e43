"""What a process starts, in order; it is stopped in reverse."""

from __future__ import annotations

from collections.abc import Sequence

from app.generation import Generations
from app.lifecycle import Component
from app.reload import Reloader
from app.runtime import RuntimeDirectory
from app.simulation.fleet import SimulatedFleet
from app.transports.admin.server import AdminServer
from app.transports.envoy.process import EnvoyProcess
from app.transports.ext_proc.lazy import ExtProc
from app.transports.http.client import PooledHttpClient
from app.transports.http.host_pools import HostPools
from app.transports.http.server import HttpServer
from app.transports.listening import ADMIN, HTTP, Sockets


def components(  # noqa: PLR0913 - the parts of a process, by name
    *,
    runtime_directory: RuntimeDirectory,
    simulation: SimulatedFleet,
    http_client: PooledHttpClient,
    host_pools: HostPools,
    sockets: Sockets,
    generations: Generations,
    reloader: Reloader[object],
    admin: AdminServer,
    http: HttpServer,
    ext_proc: ExtProc,
    envoy: EnvoyProcess | None,
) -> Sequence[Component]:
    """The admin port first, so that probes are served while the rest starts; requests last."""

    def timeout() -> float:
        return generations.shutdown().timeout

    async def start_admin() -> None:
        await admin.start()
        await generations.serve_admin()

    async def stop_admin() -> None:
        sockets.close(ADMIN)
        await admin.stop()

    async def drain_http() -> None:
        http.admission.draining = True
        sockets.close(HTTP)
        await http.drain(timeout())

    return [
        Component("runtime directory", stop=runtime_directory.remove),
        Component("admin", start_admin, stop_admin),
        Component("simulation", simulation.start, simulation.stop),
        Component("http client", stop=http_client.close),
        Component("connections to endpoints", stop=host_pools.close),
        Component("configuration", generations.start, generations.stop),
        Component("reload", reloader.start, reloader.stop),
        Component("http", stop=drain_http),
        Component("ext_proc", stop=lambda: ext_proc.stop(timeout())),
        Component("listening", generations.serve),
        *([] if envoy is None else [Component("envoy", envoy.start, lambda: envoy.stop(timeout()))]),
    ]
