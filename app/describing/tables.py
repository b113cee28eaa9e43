"""Prints plugin types as tables, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.describing.description import BUILT_IN, Broken, Description, Fact, Parameter

_WIDTH = 120
"""Columns when the output is not a terminal."""

_NAME = 28
"""Minimum columns for the name of a type: most names would wrap in fewer."""


def print_types(types: Sequence[Description], broken: Sequence[Broken]) -> None:
    """Prints a table of all types. Those that can't be loaded come last."""
    table = Table("type", "extension points", "stability", "purpose", box=box.SIMPLE_HEAD)
    table.columns[0].min_width = _NAME
    table.columns[2].no_wrap = True
    for about in types:
        purpose = about.summary if about.origin == BUILT_IN else f"{about.summary}\n(from {about.origin})"
        table.add_row(_names(about), "\n".join(about.extension_points), about.stability, purpose)
    for one in broken:
        reason = Text(f"{', '.join(one.packages)}: {one.reason}", "red")
        table.add_row(Text(one.type, "red"), "", Text("broken", "red"), reason)
    _console().print(table)


def print_type(about: Description) -> None:
    """Prints everything that is known about one type."""
    console = _console()
    console.print(about.type, style="bold")
    console.print(about.purpose or "(no description)")
    console.print()
    facts = Table.grid(padding=(0, 2))
    for name, value in _lines(about):
        facts.add_row(Text(name, "dim"), value)
    console.print(facts)
    if about.parameters:
        console.print(_parameters(about.parameters))
    if about.example:
        console.print("Example:\n", style="dim")
        console.print(about.example, end="", soft_wrap=True)


def _console() -> Console:
    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=_WIDTH)


def _names(about: Description) -> Text:
    """The type, and its other names below it."""
    text = Text(about.type, "bold")
    for alias in (name for name in about.aliases if name not in about.deprecated):
        text.append(f"\n  {alias}", "not bold dim")
    for old, new in about.deprecated.items():
        name = "" if old == about.type else f"{old} "
        text.append(f"\n  {name}deprecated:\n    use {new}", "not bold yellow")
    return text


def _lines(about: Description) -> list[tuple[str, str]]:
    lines = [
        ("extension points", ", ".join(about.extension_points)),
        ("from", about.origin),
        ("aliases", ", ".join(about.aliases)),
        ("deprecated", ", ".join(f"{old}: use {new}" for old, new in about.deprecated.items())),
        ("stability", about.stability),
        ("category", about.category),
        ("needs", _facts(about.needs)),
        ("wants", _facts(about.wants)),
        ("produces", _facts(about.produces)),
        ("parameters", "" if about.parameters else "none"),
    ]
    return [(name, value) for name, value in lines if value]


def _facts(facts: Sequence[Fact]) -> str:
    return ", ".join(f"{fact.name} of {fact.producer}" for fact in facts)


def _parameters(parameters: Sequence[Parameter]) -> Table:
    table = Table("parameter", "takes", "default", "range", "purpose", box=box.SIMPLE_HEAD)
    for parameter in parameters:
        names = "\n  ".join((parameter.key, *parameter.other_names))
        default = Text("required", "bold") if parameter.required else parameter.default
        table.add_row(names, parameter.takes.replace("`", ""), default, parameter.range, parameter.purpose)
    table.columns[0].no_wrap = True
    return table
