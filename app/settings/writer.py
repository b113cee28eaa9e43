"""Writes a tree as YAML that `reader` reads back, optionally with the origin of each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from app.settings.reader import read_scalar
from app.settings.tree import Entries, Items, Node, Origin, Scalar

_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./:@+ -]*(?<![ :])")
_UNPRINTABLE = re.compile("[\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_LONGEST_SIMPLE_KEY = 120
"""Maximum length of a key written as `key:`; YAML allows 1,024 characters."""

_INDENT = "  "


def write_yaml(tree: Entries, *, origins: bool = False) -> str:
    """`tree` as block YAML. With `origins`, the line of each value ends in a comment with its origin."""
    lines = list(_entries(tree, "", origins=origins))
    return "\n".join(lines or ["{}"]) + "\n"


def _entries(node: Entries, indent: str, *, origins: bool) -> Iterator[str]:
    for key, entry in node.entries.items():
        text = scalar_text(key)
        head = f"{indent}{text}:" if len(text) <= _LONGEST_SIMPLE_KEY else f"{indent}? {text}\n{indent}:"
        yield from _value(head, entry.node, indent, origins=origins)


def _value(head: str, node: Node, indent: str, *, origins: bool) -> Iterator[str]:
    """The lines of a value after `head`: on the same line for a scalar or an empty collection, otherwise below."""
    if isinstance(node, Entries) and node.entries:
        yield head
        yield from _entries(node, indent + _INDENT, origins=origins)
    elif isinstance(node, Items) and node.items:
        yield head
        for item in node.items:
            yield from _item(item, indent + _INDENT, origins=origins)
    else:
        yield f"{head} {_inline(node)}{_comment(node.origin) if origins else ''}"


def _item(node: Node, indent: str, *, origins: bool) -> Iterator[str]:
    if isinstance(node, Entries) and node.entries:
        first, *rest = _entries(node, indent + _INDENT, origins=origins)
        yield f"{indent}- {first.lstrip()}"
        yield from rest
    else:
        yield from _value(f"{indent}-", node, indent, origins=origins)


def _inline(node: Node) -> str:
    if isinstance(node, Scalar):
        return scalar_text(node.value)
    return "[]" if isinstance(node, Items) else "{}"


def _comment(origin: Origin) -> str:
    return f"  # {' '.join(str(origin).split())}"


def scalar_text(value: str | float | bool | None) -> str:
    """A scalar as YAML. Text is quoted only if it would otherwise be read as something else."""
    if isinstance(value, str):
        plain = _PLAIN_TEXT.fullmatch(value) and read_scalar(value) == value and " #" not in value and ": " not in value
        return value if plain and not value.startswith(("-", "...")) else _quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return ".nan" if math.isnan(value) else repr(value)
    return str(value)


def _quoted(text: str) -> str:
    """`text` in double quotes, with characters escaped that YAML doesn't print or takes for line breaks."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
