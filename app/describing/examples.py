"""Makes an example configuration for a plugin type from the model of its parameters."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from app.catalogue.catalogue import Catalogue, PluginType
from app.describing.fields import bounds_of, is_duration, is_reference
from app.extension import (
    Discovery,
    Extractor,
    Filter,
    MetricsSource,
    Parser,
    Picker,
    PluginParams,
    ProfilePicker,
    RequiresProfiles,
    Scorer,
)
from app.settings.shapes import fields_of
from app.settings.tree import DEFAULT, Entries, Entry, Items, Node, Scalar
from app.settings.writer import write_yaml

_SOURCE = "metrics-data-source"
_VALUES: Mapping[Any, Any] = {bool: True, str: "example", SecretStr: "example", Any: "example"}


class Example:
    """A small configuration around one plugin."""

    def __init__(self, name: str, found: PluginType, catalogue: Catalogue) -> None:
        """`name` is the type as a configuration spells it: a name or the address of a class."""
        self._type = found
        self._catalogue = catalogue
        self._names: list[str] = []
        """Types of other plugins to which the parameters refer."""
        self.name = name if ":" not in name else _dashed(name.rpartition(":")[2])
        """The plugin instance's name."""
        self.parameters = self._sample(found.params)
        self._plugin = {"type": name} if ":" not in name else {"name": self.name, "type": name}

    def params(self) -> PluginParams:
        """The parameters. Raises `ValidationError` if no valid ones could be made up."""
        return self._type.params.model_validate_json(json.dumps(self.parameters))

    def document(self) -> Mapping[str, Any]:
        """The configuration as plain data."""
        plugin = {**self._plugin, "parameters": self.parameters} if self.parameters else self._plugin
        others = [{"type": name} for name in dict.fromkeys(self._names) if name != self.name]
        if self._type.serves(Extractor):
            others.append({"type": _SOURCE})
        return {"plugins": [plugin, *others], **self._uses()}

    def text(self) -> str:
        """The configuration as YAML."""
        node = _node(self.document())
        return write_yaml(node) if isinstance(node, Entries) else ""

    def _uses(self) -> Mapping[str, Any]:
        """The sections that use the plugin."""
        found, reference = self._type, {"pluginRef": self.name}
        if found.serves(Filter, Scorer, Picker):
            entry = {**reference, "weight": 2} if found.serves(Scorer) else reference
            return {"schedulingProfiles": [{"name": "default", "plugins": [entry]}]}
        if found.serves(ProfilePicker):
            return {"schedulingProfiles": [{"name": name} for name in dict.fromkeys(["default", *self._profiles()])]}
        if found.serves(Parser):
            return {"requestHandler": {"parsers": [reference]}}
        if found.serves(Discovery):
            return {"dataLayer": {"discovery": reference}}
        if found.serves(MetricsSource):
            return {"dataLayer": {"sources": [reference]}}
        if found.serves(Extractor):
            return {"dataLayer": {"sources": [{"pluginRef": _SOURCE, "extractors": [reference]}]}}
        return {}

    def _profiles(self) -> Sequence[str]:
        cls = self._type.cls
        return tuple(cls.profile_names(self.params())) if isinstance(cls, RequiresProfiles) else ()

    def _sample(self, model: type[BaseModel]) -> Mapping[str, Any]:
        """Values of the required fields and of those with examples."""
        return {
            names[0]: field.examples[0] if field.examples else self._value(field.annotation, field.metadata, field)
            for names, field in fields_of(model)
            if field.examples or field.is_required()
        }

    def _value(self, annotation: Any, metadata: Sequence[Any], field: FieldInfo) -> Any:
        """A value that fits the annotation, as far as its type says."""
        origin, args = get_origin(annotation), get_args(annotation)
        if is_reference(metadata):
            return self._plugin_of(annotation)
        if is_duration(metadata):
            return "1s"
        if origin is Annotated:
            return self._value(args[0], args[1:], field)
        if origin is Literal:
            return args[0]
        if origin in (Union, types.UnionType):
            return self._value(args[0], (), field)
        if isinstance(origin, type) and args:
            return {} if issubclass(origin, Mapping) else [self._value(args[0], (), field)]
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self._sample(annotation)
        return _VALUES[annotation] if annotation in _VALUES else _number(field)

    def _plugin_of(self, point: type) -> str:
        """The name of a built-in type that serves the extension point and requires no parameters."""
        for name, found in self._catalogue.built_in.items():
            if found.serves(point) and name not in found.mark.deprecated and not self._sample(found.params):
                self._names.append(name)
                return name
        return "example"


def _number(field: FieldInfo) -> int | float:
    bounds = bounds_of(field)
    if "ge" in bounds:
        return bounds["ge"]  # type: ignore[no-any-return]
    least = bounds.get("gt", 0)
    most = bounds.get("le", bounds.get("lt", least + 2))
    return least + 1 if least + 1 < most else (least + most) / 2  # type: ignore[no-any-return]


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _node(value: Any) -> Node:
    if isinstance(value, Mapping):
        return Entries({key: Entry(DEFAULT, _node(inner)) for key, inner in value.items()}, DEFAULT)
    if isinstance(value, list | tuple):
        return Items(tuple(_node(item) for item in value), DEFAULT)
    return Scalar(value, DEFAULT)
