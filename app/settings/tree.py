"""A YAML document as plain data that remembers where each value came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a value."""

    source: str
    """The file as it was named, `--config-text`, `--set`, an environment variable, `default`."""
    line: int = 0
    """From 1; 0 where the source has no lines."""
    column: int = 0
    path: str = ""
    """The keys and indices that lead to the value, as they stand in the source."""

    def key(self, key: str, line: int, column: int) -> Origin:
        """The place of a key below this one."""
        return Origin(self.source, line, column, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int | str, line: int = 0, column: int = 0) -> Origin:
        """The place of a list's item below this one."""
        return Origin(self.source, line or self.line, column or self.column, f"{self.path}[{index}]")

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


DEFAULT = Origin("default")
"""Where values come from that nobody set."""


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
    """A mapping. Keys are text, whatever they look like; each has its own place."""

    entries: Mapping[str, Entry]
    origin: Origin

    def get(self, key: str) -> Node | None:
        """The value under `key`."""
        entry = self.entries.get(key)
        return entry.node if entry else None

    def text(self, *keys: str) -> str | None:
        """The first of `keys` whose value is text that is not empty."""
        for key in keys:
            node = self.get(key)
            if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
                return node.value
        return None

    def with_(self, key: str, entry: Entry | None) -> Entries:
        """This mapping with `key` set, or without it."""
        entries = {**self.entries}
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
        return Entries(entries, self.origin)


Node = Scalar | Items | Entries


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's place and its value."""

    origin: Origin
    node: Node


def is_null(node: Node | None) -> bool:
    """Whether `node` is YAML's null."""
    return isinstance(node, Scalar) and node.value is None


def plain(node: Node) -> Any:
    """The data without its places."""
    match node:
        case Scalar(value):
            return value
        case Items(items):
            return [plain(item) for item in items]
        case Entries(entries):
            return {key: plain(entry.node) for key, entry in entries.items()}


def as_node(value: Any, origin: Origin) -> Node:
    """Plain data as a tree, all of it from one place."""
    match value:
        case dict():
            return Entries({key: Entry(origin, as_node(below, origin)) for key, below in value.items()}, origin)
        case list() | tuple():
            return Items(tuple(as_node(item, origin) for item in value), origin)
        case _:
            return Scalar(value, origin)


def kind(node: Node) -> str:
    """What a node is called in an error."""
    match node:
        case Entries():
            return "a mapping"
        case Items():
            return "a list"
        case Scalar(value):
            return kind_of(value)


def kind_of(value: object) -> str:
    """What a plain value is called in an error."""
    if value is None:
        return "nothing"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "text", dict: "a mapping"}
    return names.get(type(value), "a list")


def locate(node: Node, path: Sequence[str | int]) -> Origin:
    """The place of `path` below `node`, or of as much of it as exists; of a mapping's value, its key's place."""
    return _follow(node, path)[0]


def origin_of(node: Node, path: Sequence[str | int]) -> Origin:
    """The place of `path` below `node`; where it does not exist nobody set it, and a default holds."""
    origin, followed = _follow(node, path)
    return origin if followed == len(path) else DEFAULT


def exists(node: Node, path: Sequence[str | int]) -> bool:
    """Whether there is something at `path` below `node`."""
    return _follow(node, path)[1] == len(path)


def _follow(node: Node, path: Sequence[str | int]) -> tuple[Origin, int]:
    """The last place on `path` that exists, and how many steps lead there."""
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
    """What is at `path` below `node`."""
    for step in path:
        if isinstance(node, Entries) and isinstance(step, str) and step in node.entries:
            node = node.entries[step].node
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def find_text(node: Node | None, text: str) -> tuple[str | int, ...]:
    """The path of the first scalar below `node` that is `text`; empty when there is none."""
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
    """`node` less the deepest part of `path` that exists; None when that is `node` itself."""
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
