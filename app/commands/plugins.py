"""`pointsman plugins`: lists the plugin types, or describes one."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from app.settings.errors import UsageError


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "type",
        nargs="?",
        metavar="TYPE",
        help="describe this type: a name, an alias, module:Class or file.py:Class (default: list all types)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument(
        "--markdown", action="store_true", help="print Markdown; without TYPE, a page of the built-in types"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints one type or all. Raises `UsageError` if the type can't be loaded; a list includes those that can't."""
    return _one(arguments) if arguments.type is not None else _all(arguments)


def _one(arguments: argparse.Namespace) -> int:
    from app.catalogue.loading import PluginTypeError  # noqa: PLC0415
    from app.describing.description import describe_type  # noqa: PLC0415
    from app.describing.markdown import section  # noqa: PLC0415 - loaded by this command only
    from app.describing.tables import print_type  # noqa: PLC0415
    from containers.application import catalogue as plugin_types  # noqa: PLC0415

    try:
        about = describe_type(arguments.type, plugin_types())
    except PluginTypeError as error:
        raise UsageError(f"{error}; {error.hint}" if error.hint else str(error)) from error
    if arguments.json:
        print(json.dumps(asdict(about), indent=2, ensure_ascii=False))  # noqa: T201
    elif arguments.markdown:
        print(section(about), end="")  # noqa: T201
    else:
        print_type(about)
    return 0


def _all(arguments: argparse.Namespace) -> int:
    from app.describing.description import built_in_types, installed_types  # noqa: PLC0415
    from app.describing.markdown import page  # noqa: PLC0415 - loaded by this command only
    from app.describing.tables import print_types  # noqa: PLC0415
    from containers.application import catalogue as plugin_types  # noqa: PLC0415

    catalogue = plugin_types()
    types = built_in_types(catalogue)
    if arguments.markdown:
        print(page(types), end="")  # noqa: T201
        return 0
    installed, broken = installed_types(catalogue)
    if arguments.json:
        data = {"types": [asdict(about) for about in (*types, *installed)], "broken": [asdict(one) for one in broken]}
        print(json.dumps(data, indent=2, ensure_ascii=False))  # noqa: T201
    else:
        print_types([*types, *installed], broken)
    return 0
