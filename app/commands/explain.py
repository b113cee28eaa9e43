"""`pointsman explain`: makes the decision for one request offline and explains it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from app.commands.arguments import add_configuration, print_faults, sources_of
from app.domain.decision import PluginFault
from app.explaining.request import parse_header, parse_path, read_request
from app.observability.logging import set_up_logging
from app.settings.errors import ConfigurationError, Faults

T = TypeVar("T")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument(
        "--request",
        required=True,
        metavar="FILE",
        help="JSON: the body of an API request, or {path, method, headers, body}",
    )
    parser.add_argument(
        "--endpoints",
        metavar="FILE",
        help="YAML: endpoints as for file-discovery, each optionally with metrics, inFlight, models and facts "
        "(default: those of pool.endpoints, without metrics)",
    )
    parser.add_argument(
        "--header",
        action="append",
        type=_argument(parse_header),
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of the request; may be repeated",
    )
    parser.add_argument(
        "--path", type=_argument(parse_path), help="the request's path (default: inferred from the body)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed for random choices (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 for a decision or an error response. Raises `ConfigurationError` for errors in any of the files."""
    from app.explaining.content import as_json, content_of  # noqa: PLC0415 - loaded by this command only
    from app.explaining.endpoints import read_endpoints  # noqa: PLC0415
    from app.explaining.explanation import FixedClock, GivenEndpoint, NoNetwork, explain, known_facts  # noqa: PLC0415
    from app.explaining.tables import as_tables  # noqa: PLC0415
    from containers.application import (  # noqa: PLC0415
        Application,
        load,
    )

    checked = load(sources_of(arguments))
    plugin_faults: list[PluginFault] = []
    application = Application(
        checked,
        clock=FixedClock(),
        random=Random(arguments.seed),
        http_client=NoNetwork(),
        fault_reporter=plugin_faults.append,
    )
    application.verify(discovery=False)
    print_faults(checked.configuration.faults.warnings)
    logging = checked.settings.observability.logging
    set_up_logging(format=logging.format, level=logging.level)
    faults = Faults()
    raw = read_request(arguments.request, arguments.header, arguments.path, faults)
    if arguments.endpoints is None:
        endpoints: Sequence[GivenEndpoint] = [GivenEndpoint(one) for one in checked.settings.pool.static_endpoints]
    else:
        endpoints = read_endpoints(arguments.endpoints, known_facts(checked.plan), faults)
    if raw is None or faults:
        raise ConfigurationError(faults.all)
    explanation = explain(application.generation.decision_parts(), raw, endpoints, plugin_faults)
    content = content_of(asyncio.run(explanation), arguments.seed)
    print(as_json(content) if arguments.json else as_tables(content, terminal=sys.stdout.isatty()), end="")  # noqa: T201
    return 0


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse` for argparse, which shows the message of `ArgumentTypeError` only."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}, found {text!r}") from None

    return parsed
