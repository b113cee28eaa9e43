"""A YAML document as a tree in which each value has its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """The position of a value in its source."""

    source: str
    """The file name as given, `--config-text`, `--set PATH`, `environment NAME`, or `default`."""
    line: int = 0
    """Starts at 1; 0 if the source has no lines."""
    column: int = 0
    path: str = ""
    """Keys and indices that lead to the value, as spelled in the source."""

    def key(self, key: str, line: int, column: int) -> Origin:
        """The origin of a key in the mapping at this origin."""
        return Origin(self.source, line, column, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int | str, line: int = 0, column: int = 0) -> Origin:
        """The origin of an item in the list at this origin."""
        return Origin(self.source, line or self.line, column or self.column, f"{self.path}[{index}]")

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


DEFAULT = Origin("default")
"""The origin of values that no source sets."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, a number, a boolean or null."""

    value: str | int | float | bool | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Node, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping. Keys are always text, and each has its own origin."""

    entries: Mapping[str, Entry]
    origin: Origin

    def get(self, key: str) -> Node | None:
        """The value under `key`, None if absent."""
        entry = self.entries.get(key)
        return entry.node if entry else None

    def text(self, *keys: str) -> str | None:
        """The first non-empty text under `keys`, None if there is none."""
        for key in keys:
            node = self.get(key)
            if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
                return node.value
        return None

    def with_(self, key: str, entry: Entry | None) -> Entries:
        """A copy with `key` set to `entry`, or removed if that is None."""
        entries = {**self.entries}
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
        return Entries(entries, self.origin)


Node = Scalar | Items | Entries


@dataclass(frozen=True, slots=True)
class Entry:
    """The origin of a key, and its value."""

    origin: Origin
    node: Node


def is_null(node: Node | None) -> bool:
    """Whether `node` is a YAML null."""
    return isinstance(node, Scalar) and node.value is None


def plain(node: Node) -> Any:
    """The data without origins."""
    match node:
        case Scalar(value):
            return value
        case Items(items):
            return [plain(item) for item in items]
        case Entries(entries):
            return {key: plain(entry.node) for key, entry in entries.items()}


def as_node(value: Any, origin: Origin) -> Node:
    """Plain data as a tree in which every value has the same origin."""
    match value:
        case dict():
            return Entries({key: Entry(origin, as_node(below, origin)) for key, below in value.items()}, origin)
        case list() | tuple():
            return Items(tuple(as_node(item, origin) for item in value), origin)
        case _:
            return Scalar(value, origin)


def kind(node: Node) -> str:
    """What error messages call the kind of a node."""
    match node:
        case Entries():
            return "a mapping"
        case Items():
            return "a list"
        case Scalar(value):
            return kind_of(value)


def kind_of(value: object) -> str:
    """What error messages call the kind of a plain value."""
    if value is None:
        return "nothing"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", dict: "a mapping"}
    return names.get(type(value), "a list")


def locate(node: Node, path: Sequence[str | int]) -> Origin:
    """The origin of the longest prefix of `path` that exists in `node`. For a value in a mapping it is the key's."""
    return _follow(node, path)[0]


def origin_of(node: Node, path: Sequence[str | int]) -> Origin:
    """The origin of the value at `path` in `node`; `DEFAULT` if no source sets it."""
    origin, followed = _follow(node, path)
    return origin if followed == len(path) else DEFAULT


def exists(node: Node, path: Sequence[str | int]) -> bool:
    """Whether `path` exists in `node`."""
    return _follow(node, path)[1] == len(path)


def _follow(node: Node, path: Sequence[str | int]) -> tuple[Origin, int]:
    """The origin of the longest prefix of `path` that exists, and its length."""
    origin = node.origin
    for followed, step in enumerate(path):
        if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
            origin, node = node.entries[step].origin, node.entries[step].node
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            origin = node.origin
        else:
            return origin, followed
    return origin, len(path)


def node_at(node: Node, path: Sequence[str | int]) -> Node | None:
    """The node at `path` in `node`, None if absent."""
    for step in path:
        if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
            node = node.entries[step].node
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def find_text(node: Node | None, text: str) -> tuple[str | int, ...]:
    """The path of the first scalar in `node` that equals `text`; empty if there is none."""
    below: Sequence[tuple[str | int, Node]] = ()
    if isinstance(node, Entries):
        below = [(key, entry.node) for key, entry in node.entries.items()]
    elif isinstance(node, Items):
        below = list(enumerate(node.items))
    for step, child in below:
        if isinstance(child, Scalar) and child.value == text:
            return (step,)
        if found := find_text(child, text):
            return (step, *found)
    return ()


def without(node: Node, path: Sequence[str | int]) -> Node | None:
    """`node` without the value at the longest prefix of `path` that exists; None if that is `node` itself."""
    if not path:
        return None
    step, rest = path[0], path[1:]
    if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
        entry = node.entries[step]
        left = without(entry.node, rest)
        return node.with_(step, Entry(entry.origin, left) if left is not None else None)
    if isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
        left = without(node.items[step], rest)
        middle = () if left is None else (left,)
        return Items((*node.items[:step], *middle, *node.items[step + 1 :]), node.origin)
    return None
