"""The arguments that say where the configuration comes from, and how errors end a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from app.settings.errors import Fault
from app.settings.layers import Sources

EXIT_FAULTS = 1
"""The configuration has faults."""

EXIT_USAGE = 2
"""Wrong usage, or a file that is not there."""


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Adds `--config`, `--config-text` and `--set`."""
    parser.add_argument(
        "-c",
        "--config",
        "--config-file",
        dest="files",
        action="append",
        default=[],
        metavar="FILE",
        help="a YAML file, or one of builtin:default, builtin:dev, builtin:prod; may be repeated, later ones win",
    )
    parser.add_argument("--config-text", dest="text", metavar="YAML", help="YAML text, laid over the files")
    parser.add_argument(
        "--set",
        dest="sets",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="a single value, such as 'plugins[queue-scorer].enabled=false'; may be repeated",
    )


def sources_of(arguments: argparse.Namespace) -> Sources:
    """Where the configuration comes from."""
    return Sources(tuple(arguments.files), arguments.text, dict(os.environ), tuple(arguments.sets))


def print_faults(faults: Sequence[Fault]) -> None:
    """Prints faults, one a line."""
    for fault in faults:
        print(fault, file=sys.stderr)  # noqa: T201 - a command's output
