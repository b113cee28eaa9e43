"""`pointsman serve`: the router."""

from __future__ import annotations

import argparse
import gc

import structlog

from app.commands import go_flags
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
    parser.add_argument(
        "--envoy", action="store_true", help="let an Envoy serve instead of the router; needs pointsman[envoy]"
    )
    parser.add_argument("--admin-port", type=int, help="port of the admin pages, instead of transports.admin.port")
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
    http, admin, ext_proc = settings.transports.http, settings.transports.admin, settings.transports.ext_proc
    statuses = container.pool().statuses()
    structlog.get_logger("pointsman").info("started", endpoints=len(statuses))
    if settings.observability.logging.format != "console":
        return
    lines = []
    listed = [f"  {status.endpoint.name:<12} {status.endpoint.authority}" for status in statuses]
    if http.enabled:
        envoy = settings.transports.envoy.enabled
        url = f"http://localhost:{container.envoy().port if envoy else container.http_server().port}"
        lines += [f"Pointsman routes {url} to {len(statuses)} endpoints{', by Envoy' if envoy else ''}:", *listed]
    if ext_proc.enabled:
        port = container.ext_proc_server().port
        lines += [f"Pointsman picks among {len(statuses)} endpoints for proxies that call port {port}:", *listed]
    if admin.enabled:
        port = container.admin_server().port
        lines.append(f"Health, metrics and insight: http://localhost:{port}/readyz /metrics /debug/endpoints")
    if http.enabled and settings.simulation.servers:
        lines += ["Try:", _try(url, settings.simulation.model)]
    print("\n".join(lines), flush=True)  # noqa: T201


def _try(url: str, model: str) -> str:
    body = f'{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Hello"}}]}}'
    return f"  curl -sN {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"
