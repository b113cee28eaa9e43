"""`pointsman show`: prints the effective configuration."""

from __future__ import annotations

import argparse

from app.commands.arguments import add_configuration, print_faults, sources_of


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument("--origins", action="store_true", help="append to each value where it was set")
    parser.add_argument(
        "--as",
        dest="form",
        choices=["effective", "endpointpickerconfig"],
        default="effective",
        help="'effective': with all defaults and additions; 'endpointpickerconfig': only what was configured, "
        "converted to the current form",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the configuration as YAML."""
    from containers.application import check  # noqa: PLC0415 - only commands that build load all plugins

    checked = check(sources_of(arguments))
    print_faults(checked.configuration.faults.warnings)
    if arguments.form == "effective":
        print(checked.effective(origins=arguments.origins), end="")  # noqa: T201
    else:
        print(checked.converted(), end="")  # noqa: T201
    return 0
