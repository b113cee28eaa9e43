"""`pointsman check`: checks a configuration and reports everything that is wrong with it."""

from __future__ import annotations

import argparse
import sys

from app.commands.arguments import EXIT_FAULTS, add_configuration, print_faults, sources_of


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 if there are no errors, else 1. With `--strict`, warnings count as errors."""
    from containers.application import check  # noqa: PLC0415 - only commands that build load all plugins

    checked = check(sources_of(arguments))
    warnings = checked.configuration.faults.warnings
    print_faults(warnings)
    if arguments.strict and warnings:
        print(f"{len(warnings)} warning{'s' * (len(warnings) != 1)}", file=sys.stderr)  # noqa: T201
        return EXIT_FAULTS
    plugins, profiles = len(checked.plan.plugins), len(checked.plan.profiles)
    suffix = f", {len(warnings)} warning{'s' * (len(warnings) != 1)}" if warnings else ""
    print(f"ok: {plugins} plugins, {profiles} profile{'s' * (profiles != 1)}{suffix}")  # noqa: T201
    return 0
