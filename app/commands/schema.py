"""`pointsman schema`: prints the JSON Schema of a configuration, for editors and validators."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.settings.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output")


def run(arguments: argparse.Namespace) -> int:
    """Prints or writes the schema. Raises `UsageError` if the file can't be written."""
    from app.describing.schema import schema_text  # noqa: PLC0415 - loads all plugins
    from containers.application import catalogue  # noqa: PLC0415

    text = schema_text(catalogue())
    if arguments.output is None:
        print(text, end="")  # noqa: T201
        return 0
    try:
        Path(arguments.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{arguments.output}: {error.strerror or error}") from None
    return 0
