"""`pointsman explain`: the decision for one request, and why, without a network."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

from app.commands.arguments import add_configuration, sources_of, tell
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
        help="YAML: the endpoints as for file-discovery, each with metrics, inFlight, models and facts if wanted "
        "(default: those of pool.endpoints, with nothing known of them)",
    )
    parser.add_argument(
        "--header",
        action="append",
        type=_argument(parse_header),
        default=[],
        metavar="'NAME: VALUE'",
        help="a header of the request; may be repeated",
    )
    parser.add_argument("--path", type=_argument(parse_path), help="the request's path (default: told by its keys)")
    parser.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 for a decision and for a refusal, 1 for faults of the configuration or of the two files."""
    from app.explaining.content import as_json, content_of  # noqa: PLC0415 - loaded by this command only
    from app.explaining.endpoints import read_endpoints  # noqa: PLC0415
    from app.explaining.explanation import explain, known_facts  # noqa: PLC0415
    from app.explaining.tables import as_tables  # noqa: PLC0415
    from containers.assembly import check  # noqa: PLC0415

    checked = check(sources_of(arguments))
    tell(checked.configuration.faults.warnings)
    logging = checked.configuration.settings.observability.logging
    set_up_logging(format=logging.format, level=logging.level)
    faults = Faults()
    raw = read_request(arguments.request, arguments.header, arguments.path, faults)
    file = arguments.endpoints
    endpoints = None if file is None else read_endpoints(file, known_facts(checked), faults)
    if raw is None or faults:
        raise ConfigurationError(faults.all)
    content = content_of(asyncio.run(explain(checked, raw, endpoints, seed=arguments.seed)), arguments.seed)
    print(as_json(content) if arguments.json else as_tables(content, terminal=sys.stdout.isatty()), end="")  # noqa: T201
    return 0


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse` for argparse, which drops the text of other errors."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}, found {text!r}") from None

    return parsed
