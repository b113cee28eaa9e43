"""What commands share: the arguments for the configuration, exit codes, and the output of errors and warnings."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from app.settings.errors import Fault
from app.settings.layers import Sources

EXIT_FAULTS = 1
"""The configuration has errors, or the command failed."""

EXIT_USAGE = 2
"""Wrong usage, or a missing file."""


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
    parser.add_argument("--config-text", dest="text", metavar="YAML", help="YAML text that overrides the files")
    parser.add_argument(
        "--set",
        dest="sets",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="a single value, such as 'plugins[queue-scorer].enabled=false'; may be repeated",
    )


def sources_of(arguments: argparse.Namespace) -> Sources:
    """The sources of the configuration, including the environment."""
    return Sources(tuple(arguments.files), arguments.text, dict(os.environ), tuple(arguments.sets))


def print_faults(faults: Sequence[Fault]) -> None:
    """Prints errors and warnings to standard error, one per line."""
    for fault in faults:
        print(fault, file=sys.stderr)  # noqa: T201 - a command's output
