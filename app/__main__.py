"""The console script: parses the arguments and runs a command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from app.commands.arguments import EXIT_FAULTS, EXIT_USAGE, print_faults
from app.settings.errors import ConfigurationError, UsageError
from pointsman import __version__

COMMANDS = {
    "serve": "run the router",
    "check": "check a configuration and report everything that is wrong with it",
    "show": "print the effective configuration",
    "explain": "explain where a request would go, and why",
    "plugins": "list the plugin types, or describe one",
    "schema": "print the JSON Schema of a configuration",
    "fleet": "run simulated model servers",
    "tune": "search parameters and weights over a trace",
    "replay": "run a trace through configurations, in virtual time",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 for success, 1 for errors, 2 for wrong usage or a missing file."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except ConfigurationError as error:
        print_faults(error.faults)
        errors = sum(fault.severity == "error" for fault in error.faults)
        print(f"{errors} error{'s' * (errors != 1)}", file=sys.stderr)  # noqa: T201
        return EXIT_FAULTS
    except UsageError as error:
        print(f"pointsman: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pointsman", description="Picks the model server that each inference request goes to."
    )
    parser.add_argument("--version", action="version", version=f"pointsman {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        command = importlib.import_module(f"app.commands.{name}")
        subparser = commands.add_parser(name, help=text, description=command.__doc__)
        command.add(subparser)
        subparser.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
