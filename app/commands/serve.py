"""`pointsman serve`: the router."""

from __future__ import annotations

import argparse
import gc

import structlog

from app.commands.arguments import add_configuration, sources_of, tell
from app.commands.process import serve_until_stopped
from app.observability.logging import set_up_logging
from containers.application import ApplicationContainer
from containers.assembly import Checked, check

GARBAGE = 10_000
"""New objects after which unreachable cycles are looked for; requests leave none behind."""


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument("--port", type=int, help="port of the router, instead of transports.http.port")
    parser.add_argument("--admin-port", type=int, help="port of the admin pages, instead of transports.admin.port")


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT, then drains."""
    sets = list(arguments.sets)
    for path, value in (("transports.http.port", arguments.port), ("transports.admin.port", arguments.admin_port)):
        if value is not None:
            sets.append(f"{path}={value}")
    arguments.sets = sets
    checked = check(sources_of(arguments))
    tell(checked.configuration.faults.warnings)
    logging = checked.configuration.settings.observability.logging
    set_up_logging(format=logging.format, level=logging.level)
    return serve_until_stopped(_serve(checked))


async def _serve(checked: Checked) -> None:
    container = checked.container()

    def ready() -> None:
        _leave_to_the_collector_what_is_new()
        _say_what_runs(container)

    await container.lifecycle().run(ready=ready)


def _leave_to_the_collector_what_is_new() -> None:
    """What was made by the start stays for good: looking through it again and again would be a part of each request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)


def _say_what_runs(container: ApplicationContainer) -> None:
    """A few lines for whoever started it: what runs, where, and what to try."""
    settings = container.settings()
    http, admin = settings.transports.http, settings.transports.admin
    statuses = container.pool().statuses()
    structlog.get_logger("pointsman").info("started", endpoints=len(statuses))
    if settings.observability.logging.format != "console":
        return
    lines = []
    if http.enabled:
        url = f"http://localhost:{container.http_server().port}"
        lines.append(f"Pointsman routes {url} to {len(statuses)} endpoints:")
        lines += [f"  {status.endpoint.name:<12} {status.endpoint.authority}" for status in statuses]
    if admin.enabled:
        port = container.admin_server().port
        lines.append(f"Health, metrics and insight: http://localhost:{port}/readyz /metrics /debug/endpoints")
    if http.enabled and settings.simulation.servers:
        lines += ["Try:", _try(url, settings.simulation.model)]
    print("\n".join(lines), flush=True)  # noqa: T201


def _try(url: str, model: str) -> str:
    body = f'{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
    return f"  curl -sN {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"
