"""Reads YAML strictly: 1.2 core schema, one document, no duplicate keys, every value with its origin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from app.settings.errors import Faults
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar
from app.settings.yaml_errors import yaml_error_of

MAX_NODES = 100_000
"""Maximum number of values in a document. Each use of an alias counts, which bounds the expansion of small files."""

_PLAIN = "plain"
_STRING = "tag:yaml.org,2002:str"
_MAP = "tag:yaml.org,2002:map"
_LIST = "tag:yaml.org,2002:seq"
_CORE_TAGS = (_PLAIN, *(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null")))
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:null": type(None),
}
_MERGE = "<<"

_LONGEST_NUMBER = 3000
"""Maximum length of a number. A longer one is read as text, since Python can't format integers over 4,300 digits."""

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = re.compile(r"\.(?:nan|NaN|NAN)")


class _Alias(yaml.Node):
    """An alias at its own position; `value` is the node that it refers to."""

    id = "alias"


class _Loader(yaml.SafeLoader):
    """Parses and composes only. Scalars are tagged as plain or as text; `read_scalar` resolves the plain ones."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STRING
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        alias = event if isinstance(event, yaml.AliasEvent) else None
        node = super().compose_node(parent, index)
        return node if alias is None else _Alias(_PLAIN, node, alias.start_mark, alias.end_mark)  # type: ignore[arg-type]

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        unspecific = self.peek_event().tag == "!"  # type: ignore[no-untyped-call]
        node = super().compose_scalar_node(anchor)
        if unspecific:
            node.tag = _STRING
        return node


def read_yaml(text: str | bytes, source: str, faults: Faults) -> Entries:
    """The mapping in `text`. It is empty if `text` is empty, or if it can't be parsed, which is reported as a fault."""
    start = Origin(source, 1, 1)
    try:
        return _mapping(list(_compose(text)), source, faults)
    except yaml.MarkedYAMLError as error:
        found = yaml_error_of(text, error)
        origin = Origin(source, found.line, found.column) if found.line else start
        faults.error(origin, f"this is not YAML: {found.message}", found.hint)
    except yaml.reader.ReaderError as error:
        origin = Origin(source, *_position_of_index(text, error.position))
        faults.error(origin, f"this is not YAML: {error.reason} ({_code(error.character)})")
    except RecursionError:
        faults.error(start, "this YAML is nested too deeply")
    return Entries({}, start)


def _mapping(documents: list[yaml.Node], source: str, faults: Faults) -> Entries:
    if not documents:
        return Entries({}, Origin(source, 1, 1))
    for another in documents[1:2]:
        origin = Origin(source, *_position(another))
        faults.error(origin, "a second document starts here", "keep one document per file, or pass several files")
    start = Origin(source, *_position(documents[0]))
    node = _Converter(source, faults).convert(documents[0], start)
    if isinstance(node, Entries):
        return node
    if not isinstance(node, Scalar) or node.value is not None:
        faults.error(start, f"expected a mapping, found {_kind_of_root(node)}")
    return Entries({}, start)


def _position_of_index(text: str | bytes, index: int) -> tuple[int, int]:
    """Line and column of a character, from 1."""
    before = text[:index]
    newline = "\n" if isinstance(before, str) else b"\n"
    return before.count(newline) + 1, len(before) - before.rfind(newline)  # type: ignore[arg-type]


def _code(character: str | int | bytes) -> str:
    number = character[0] if isinstance(character, bytes) else character
    return f"#x{ord(number) if isinstance(number, str) else number:02x}"


def read_scalar(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar in the YAML 1.2 core schema."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text) or _FALSE.fullmatch(text):
        return bool(_TRUE.fullmatch(text))
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITY.fullmatch(text):
        return float("-inf") if text.startswith("-") else float("inf")
    return float("nan") if _NAN.fullmatch(text) else text


class _Converter:
    """Converts PyYAML nodes to a tree."""

    def __init__(self, source: str, faults: Faults) -> None:
        self._source = source
        self._faults = faults
        self._count = 0
        self._open: list[int] = []

    def convert(self, node: yaml.Node, origin: Origin) -> Node:
        if isinstance(node, _Alias):
            node = node.value
        self._count += 1
        if self._count > MAX_NODES:
            if self._count == MAX_NODES + 1:
                self._faults.error(origin, f"more than {MAX_NODES} values", "each use of an alias counts")
            return Scalar(None, origin)
        if id(node) in self._open:
            self._faults.error(origin, "an alias refers to a node that contains it")
            return Scalar(None, origin)
        self._open.append(id(node))
        try:
            return self._convert(node, origin)
        finally:
            self._open.pop()

    def _convert(self, node: yaml.Node, origin: Origin) -> Node:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, origin)
        if node.tag not in (_MAP, _LIST):
            self._faults.error(origin, _unsupported(node.tag), "remove it")
        if isinstance(node, yaml.SequenceNode):
            items = [self.convert(item, origin.item(index, *_position(item))) for index, item in enumerate(node.value)]
            return Items(tuple(items), origin)
        assert isinstance(node, yaml.MappingNode)  # noqa: S101 - the third and last kind of node
        return Entries(self._entries(node, origin), origin)

    def _scalar(self, node: yaml.ScalarNode, origin: Origin) -> Scalar:
        if node.tag == _STRING:
            return Scalar(node.value, origin)
        if node.tag not in _CORE_TAGS:
            self._faults.error(origin, _unsupported(node.tag), "remove it")
        value = read_scalar(node.value)
        if not isinstance(value, _TYPES.get(node.tag, object)):
            self._faults.error(origin, f"the value does not match the tag {node.tag}", "remove the tag")
        return Scalar(value, origin)

    def _entries(self, node: yaml.MappingNode, origin: Origin) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            line, column = _position(key_node)
            key_node = key_node.value if isinstance(key_node, _Alias) else key_node  # noqa: PLW2901
            if not isinstance(key_node, yaml.ScalarNode):
                self._faults.error(Origin(self._source, line, column, origin.path), "a key must be text")
                continue
            key = key_node.value
            key_origin = origin.key(key, line, column)
            if key == _MERGE and key_node.style is None:
                self._merge(value_node, key_origin, origin, merged)
            elif key in own:
                self._faults.error(key_origin, f"duplicate key {key!r}, first at line {own[key].origin.line}")
            else:
                own[key] = Entry(key_origin, self.convert(value_node, key_origin))
        return {**{key: entry for key, entry in merged.items() if key not in own}, **own}

    def _merge(self, node: yaml.Node, key_origin: Origin, origin: Origin, merged: dict[str, Entry]) -> None:
        node = node.value if isinstance(node, _Alias) else node
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            value = self.convert(part, origin)
            if not isinstance(value, Entries):
                self._faults.error(key_origin, "a merge key takes a mapping or a list of mappings")
                continue
            for key, entry in value.entries.items():
                merged.setdefault(key, entry)


def _compose(text: str | bytes) -> Iterator[yaml.Node]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    finally:
        loader.dispose()


def _unsupported(tag: str) -> str:
    """A custom tag is not echoed, since it may be a misplaced secret."""
    return f"the tag {tag} is not supported" if tag.startswith("tag:yaml.org,2002:") else "this tag is not supported"


def _position(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _kind_of_root(node: Node) -> str:
    return "a list" if isinstance(node, Items) else "a single value"
