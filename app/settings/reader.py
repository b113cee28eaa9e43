"""Reads YAML strictly: the 1.2 core schema, one document, no duplicate keys, every value with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from app.settings.errors import Faults
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar
from app.settings.yaml_errors import yaml_error_of

MAX_NODES = 100_000
"""Values of one document, aliases counted each time: a bound on what a small file can blow up to."""

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
"""Characters of a number; a longer one is text, since Python does not write integers of over 4,300 digits."""

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
    """An alias where it stands; `value` is the node that it stands for."""

    id = "alias"


class _Loader(yaml.SafeLoader):
    """Parses and composes only: a scalar is marked as plain or as text, what it means is decided here."""

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
    """The mapping that `text` holds; an empty one when it holds nothing or can't be read, which is then a fault."""
    start = Origin(source, 1, 1)
    try:
        return _mapping(list(_compose(text)), source, faults)
    except yaml.MarkedYAMLError as error:
        slip = yaml_error_of(text, error)
        place = Origin(source, slip.line, slip.column) if slip.line else start
        faults.error(place, f"this is not YAML: {slip.sentence}", slip.hint)
    except yaml.reader.ReaderError as error:
        place = Origin(source, *_place_in(text, error.position))
        faults.error(place, f"this is not YAML: {error.reason} ({_code(error.character)})")
    except RecursionError:
        faults.error(start, "this is not YAML that can be read: it is nested too deep")
    return Entries({}, start)


def _mapping(documents: list[yaml.Node], source: str, faults: Faults) -> Entries:
    if not documents:
        return Entries({}, Origin(source, 1, 1))
    for another in documents[1:2]:
        place = Origin(source, *_place(another))
        faults.error(place, "a second document begins here", "keep one document per file, or name several files")
    start = Origin(source, *_place(documents[0]))
    node = _Converter(source, faults).convert(documents[0], start)
    if isinstance(node, Entries):
        return node
    if not isinstance(node, Scalar) or node.value is not None:
        faults.error(start, f"expected a mapping, found {_kind_of_root(node)}")
    return Entries({}, start)


def _place_in(text: str | bytes, position: int) -> tuple[int, int]:
    before = text[:position]
    newline = "\n" if isinstance(before, str) else b"\n"
    return before.count(newline) + 1, len(before) - before.rfind(newline)  # type: ignore[arg-type]


def _code(character: str | int | bytes) -> str:
    number = character[0] if isinstance(character, bytes) else character
    return f"#x{ord(number) if isinstance(number, str) else number:02x}"


def read_scalar(text: str) -> str | int | float | bool | None:
    """What a plain scalar of the YAML 1.2 core schema means."""
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
    """Turns PyYAML's nodes into ours."""

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
                self._faults.error(origin, f"more than {MAX_NODES} values", "are aliases multiplying?")
            return Scalar(None, origin)
        if id(node) in self._open:
            self._faults.error(origin, "an alias stands inside what it stands for")
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
            self._faults.error(origin, _unsupported(node.tag), "leave it out")
        if isinstance(node, yaml.SequenceNode):
            items = [self.convert(item, origin.item(index, *_place(item))) for index, item in enumerate(node.value)]
            return Items(tuple(items), origin)
        assert isinstance(node, yaml.MappingNode)  # noqa: S101 - there are three kinds
        return Entries(self._entries(node, origin), origin)

    def _scalar(self, node: yaml.ScalarNode, origin: Origin) -> Scalar:
        if node.tag == _STRING:
            return Scalar(node.value, origin)
        if node.tag not in _CORE_TAGS:
            self._faults.error(origin, _unsupported(node.tag), "leave it out")
        value = read_scalar(node.value)
        if not isinstance(value, _TYPES.get(node.tag, object)):
            self._faults.error(origin, f"the tag {node.tag} does not fit what follows it", "leave it out")
        return Scalar(value, origin)

    def _entries(self, node: yaml.MappingNode, origin: Origin) -> dict[str, Entry]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            line, column = _place(key_node)
            key_node = key_node.value if isinstance(key_node, _Alias) else key_node  # noqa: PLW2901
            if not isinstance(key_node, yaml.ScalarNode):
                self._faults.error(Origin(self._source, line, column, origin.path), "a key must be text")
                continue
            key = key_node.value
            place = origin.key(key, line, column)
            if key == _MERGE and key_node.style is None:
                self._merge(value_node, place, origin, merged)
            elif key in own:
                first = own[key].origin
                self._faults.error(place, f"the key {key!r} stands here and at line {first.line}")
            else:
                own[key] = Entry(place, self.convert(value_node, place))
        return {**{key: entry for key, entry in merged.items() if key not in own}, **own}

    def _merge(self, node: yaml.Node, place: Origin, origin: Origin, merged: dict[str, Entry]) -> None:
        node = node.value if isinstance(node, _Alias) else node
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            value = self.convert(part, origin)
            if not isinstance(value, Entries):
                self._faults.error(place, "a merge key takes a mapping or a list of mappings")
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
    """A tag of one's own is not echoed: it may be a value in a wrong place."""
    return f"the tag {tag} is not supported" if tag.startswith("tag:yaml.org,2002:") else "this tag is not supported"


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _kind_of_root(node: Node) -> str:
    return "a list" if isinstance(node, Items) else "a single value"
