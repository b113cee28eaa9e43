"""Plugin types as Markdown: `docs/plugins.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from app.describing.description import Description, Fact, Parameter

_KINDS: Mapping[str, str] = {
    "ProfilePicker": "Profile pickers",
    "Filter": "Filters",
    "Scorer": "Scorers",
    "Picker": "Pickers",
    "Producer": "Producers",
    "Parser": "Parsers",
    "Discovery": "Discovery",
    "MetricsSource": "Metrics sources",
    "Extractor": "Extractors",
}
"""Section titles by a type's first extension point. Types with any other are observers."""

_HEAD = """\
# Plugins

Every plugin type that comes with Pointsman, by extension point. `pointsman plugins` lists them together with those of
installed packages, `pointsman plugins TYPE` describes one of them or a class of your own in full. This page is the
output of `pointsman plugins --markdown`.

A key may be spelt `blockSize`, `block_size` or `block-size`. `rules[].profile` stands for the key `profile` of each
item of the list `rules`.
"""


def page(types: Sequence[Description]) -> str:
    """The page of all `types`, which must be sorted by extension point."""
    sections = [_HEAD]
    for kind, found in groupby(types, key=lambda about: _KINDS.get(about.extension_points[0], "Observers")):
        sections.append(f"## {kind}\n")
        sections += [section(about, level=3) for about in found]
    return "\n".join(sections)


def section(about: Description, *, level: int = 2) -> str:
    """The section on one type."""
    return "\n".join(_paragraphs(about, "#" * level))


def _paragraphs(about: Description, mark: str) -> Iterator[str]:
    yield f"{mark} {about.type}\n"
    yield f"{about.purpose}\n" if about.purpose else ""
    yield "".join(f"* {name}: {value}\n" for name, value in _lines(about) if value)
    if about.parameters:
        rows = [
            "| parameter | takes | default | range | purpose |",
            "|---|---|---|---|---|",
            *map(_row, about.parameters),
        ]
        yield "\n".join(rows) + "\n"
    if about.example:
        yield f"```yaml\n{about.example}```\n"


def _lines(about: Description) -> list[tuple[str, str]]:
    return [
        ("extension points", _listed(about.extension_points)),
        ("also called", _listed(about.aliases)),
        ("deprecated", ", ".join(f"`{old}`: use `{new}`" for old, new in about.deprecated.items())),
        ("stability", ", ".join(filter(None, (about.stability, about.category)))),
        ("needs", _facts(about.needs)),
        ("wants", _facts(about.wants)),
        ("produces", _facts(about.produces)),
    ]


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else _code(parameter.default)
    cells = (
        _listed((parameter.key, *parameter.other_names)),
        parameter.takes,
        default,
        parameter.range,
        parameter.purpose,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _facts(facts: Sequence[Fact]) -> str:
    return ", ".join(f"`{fact.name}` of `{fact.producer}`" for fact in facts)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_code, names))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
