"""`pointsman serve`: runs the router."""

from __future__ import annotations

import argparse
import gc

import structlog

from app.commands import go_flags
from app.commands.arguments import add_configuration, print_faults, sources_of
from app.commands.process import serve_until_stopped
from app.observability.logging import set_up_logging
from app.transports.listening import ADMIN, HTTP
from containers.application import Application, load

GC_THRESHOLD = 10_000
"""Allocations between garbage collections: many, since requests leave no reference cycles."""


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument("--port", type=int, help="port of the router, instead of transports.http.port")
    parser.add_argument(
        "--envoy",
        action="store_true",
        help="start Envoy to serve instead of the built-in router; needs pointsman[envoy]",
    )
    parser.add_argument("--admin-port", type=int, help="port of the admin server, instead of transports.admin.port")
    go_flags.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT, then drains."""
    sets = [*go_flags.sets_of(arguments), *arguments.sets]
    for path, value in (("transports.http.port", arguments.port), ("transports.admin.port", arguments.admin_port)):
        if value is not None:
            sets.append(f"{path}={value}")
    if arguments.envoy:
        sets.append("transports.envoy.enabled=true")
    arguments.sets = sets
    application = Application(load(sources_of(arguments)))
    application.verify()
    print_faults(application.checked.configuration.faults.warnings)
    logging = application.checked.settings.observability.logging
    set_up_logging(format=logging.format, level=logging.level)
    return serve_until_stopped(_serve(application))


async def _serve(application: Application) -> None:
    def ready() -> None:
        _tune_garbage_collection()
        _print_summary(application)

    await application.runner().run(ready=ready)


def _tune_garbage_collection() -> None:
    """Exempts the objects that exist now from garbage collection: they stay, and traversing them costs time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 10, 10)


def _print_summary(application: Application) -> None:
    """Logs the start and, on a console, prints what runs, where it listens, and a request to try."""
    process, settings = application.process, application.checked.settings
    http, admin, ext_proc = settings.transports.http, settings.transports.admin, settings.transports.ext_proc
    statuses = process.table().statuses()
    structlog.get_logger("pointsman").info("started", endpoints=len(statuses))
    if settings.observability.logging.format != "console":
        return
    lines = []
    listed = [f"  {status.endpoint.name:<12} {status.endpoint.authority}" for status in statuses]
    if http.enabled:
        envoy = settings.transports.envoy.enabled
        url = f"http://localhost:{process.envoy().port if envoy else process.sockets().port(HTTP)}"
        lines += [f"Pointsman routes {url} to {len(statuses)} endpoints{', through Envoy' if envoy else ''}:", *listed]
    if ext_proc.enabled:
        port = process.ext_proc_server().server.port
        lines += [f"Pointsman picks among {len(statuses)} endpoints for proxies that call port {port}:", *listed]
    if admin.enabled:
        port = process.sockets().port(ADMIN)
        lines.append(f"Health, metrics and debug pages: http://localhost:{port}/readyz /metrics /debug/endpoints")
    if http.enabled and settings.simulation.servers:
        lines += ["Try:", _try(url, settings.simulation.model)]
    print("\n".join(lines), flush=True)  # noqa: T201


def _try(url: str, model: str) -> str:
    body = f'{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
    return f"  curl -sN {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"
