"""`pointsman show`: the effective configuration."""

from __future__ import annotations

import argparse

from app.commands.arguments import add_configuration, print_faults, sources_of


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    parser.add_argument("--origins", action="store_true", help="say behind each value which layer set it")
    parser.add_argument(
        "--as",
        dest="form",
        choices=["effective", "endpointpickerconfig"],
        default="effective",
        help="'effective': with all defaults and what was added; 'endpointpickerconfig': what was written, in whatever "
        "form, in the current one",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the effective configuration as YAML."""
    from containers.application import check  # noqa: PLC0415 - only commands that build load all plugins

    checked = check(sources_of(arguments))
    print_faults(checked.configuration.faults.warnings)
    if arguments.form == "effective":
        print(checked.effective(origins=arguments.origins), end="")  # noqa: T201
    else:
        print(checked.converted(), end="")  # noqa: T201
    return 0
