"""The JSON Schema of a configuration document: every form of it, and the parameters of every built-in plugin type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import core_schema

from app.catalogue.catalogue import Catalogue
from app.describing.fields import bounds_of, default_of, takes
from app.settings.dialects.forms import DeclaredPlugin, Document, PlacedPlugin, WeightedPlugin
from app.settings.keys import ORDER_KEYS
from app.settings.picker_config import PluginSpec
from app.settings.schema import API_VERSIONS
from app.settings.shapes import fields_of, shape_at

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_NULL = {"type": "null"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_REFERENCE = re.compile(r'"\$ref": "([^"]+)"')
_INNER = ("items", "additionalProperties")
_BOUNDS = ("ge", "gt", "le", "lt")


def schema_text(catalogue: Catalogue) -> str:
    """The schema as the text of a file."""
    return json.dumps(document_schema(catalogue), indent=1, ensure_ascii=False) + "\n"


def document_schema(catalogue: Catalogue) -> Schema:
    """The schema of one document. A document is one layer, so what another layer may set is not required.

    Keys may be spelt in every way that is accepted. A plugin type may be any text, since it may come from a package or
    a file; only the parameters of built-in types are described.
    """
    definitions = _definitions(Document, "")
    root: Schema = definitions.pop("Document")
    properties = root["properties"]
    properties["scheduling_profiles"] = {"$ref": "#/properties/schedulingProfiles"}
    properties["apiVersion"] |= {"enum": list(API_VERSIONS)}
    properties["kind"] |= {"const": "EndpointPickerConfig"}
    items: Schema = properties["endpointPickingProfiles"]["items"]
    items["if"] = {"required": ["name"]}
    items["then"], items["else"] = items.pop("anyOf")
    definitions["beside"] = {
        "description": "Name or index of the item next to which a new one is inserted.",
        "type": ["string", "integer"],
    }
    definitions |= _plugin_definitions(catalogue)
    for model, type_key in ((PluginSpec, "type"), (DeclaredPlugin, "plugin")):
        definition = definitions[model.__name__]
        definition["properties"][type_key] = _a_type(definition["properties"][type_key])
        definition.setdefault("allOf", []).append({"$ref": f"#/$defs/parameters-by-{type_key}"})
    for placed in (PlacedPlugin, WeightedPlugin):
        definition = definitions[placed.__name__]
        for key in ("name", "type"):
            definition["properties"][key] = _a_type(definition["properties"][key])
        definition.setdefault("allOf", []).append({"$ref": "#/$defs/args-in-place"})
    head = {"$schema": DIALECT, "title": "Pointsman configuration"}
    return {**head, **root, "$defs": dict(sorted(definitions.items()))}


# -- plugin types


def _plugin_definitions(catalogue: Catalogue) -> Schema:
    """Definitions of the types, of the parameters of each, and of the conditions that connect the two."""
    names: dict[type[BaseModel], list[str]] = {}
    for name, found in sorted(catalogue.built_in.items()):
        names.setdefault(found.params, []).append(name)
    definitions: Schema = {}
    for model, types in names.items():
        main = catalogue.built_in[types[0]].mark.type if model.model_fields else "no-parameters"
        definitions |= _definitions(model, main)
        definitions[main].pop("required", None)  # another layer may set them
        definitions[main]["type"] = ["object", "null"]
        names[model] = [main, *types]
    usual = sorted(name for name, found in catalogue.built_in.items() if name not in found.mark.deprecated)
    definitions["plugin-type"] = {"anyOf": [{"enum": usual}, {"type": "string"}]}
    groups = list(names.values())
    for key in ("type", "plugin"):
        definitions[f"parameters-by-{key}"] = {
            "allOf": [_when(_is(key, types), main, "parameters") for main, *types in groups]
        }
    definitions["args-in-place"] = {
        "allOf": [_when(_is_in_place(types), main, "args", "parameters") for main, *types in groups]
    }
    return definitions


def _when(condition: Schema, definition: str, *keys: str) -> Schema:
    return {"if": condition, "then": {"properties": {key: {"$ref": f"#/$defs/{definition}"} for key in keys}}}


def _is(key: str, types: Sequence[str]) -> Schema:
    value: Schema = {"const": types[0]} if len(types) == 1 else {"enum": list(types)}
    return {"properties": {key: value}, "required": [key]}


def _is_in_place(types: Sequence[str]) -> Schema:
    """The type of a plugin described in place is its `type`, or its `name` if it has no `type`."""
    return {"anyOf": [_is("type", types), {**_is("name", types), "not": {"required": ["type"]}}]}


def _a_type(schema: Schema) -> Schema:
    return {**{key: value for key, value in schema.items() if key != "type"}, "$ref": "#/$defs/plugin-type"}


# -- models


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, without titles. The schema of each model names the model under `$model`."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def __init__(self, ref_template: str) -> None:
        super().__init__(ref_template=ref_template)
        self.models: dict[str, type[BaseModel]] = {}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never: a key says enough."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        """The schema of a model, with its name under `$model`."""
        model = cast("type[BaseModel]", schema["cls"])
        name = f"{model.__module__}:{model.__qualname__}"
        self.models[name] = model
        return {**super().model_schema(schema), "$model": name}


def _definitions(model: type[BaseModel], main: str) -> Schema:
    """The schemas of `model` and of the models in it, with keys as YAML may spell them.

    That of `model` is named `main`, or after its class if `main` is empty. The others are named after their classes,
    prefixed with `main`.
    """
    prefix = f"{main}." if main else ""
    generator = _Generator(f"#/$defs/{prefix}{{model}}")
    root = generator.generate(model.__pydantic_core_schema__)
    inner = {f"{prefix}{name}": definition for name, definition in root.pop("$defs", {}).items()}
    root.pop("$schema", None)
    schemas = {main or model.__name__: root, **inner}
    for name, schema in schemas.items():
        if "$model" in schema:
            here = "#" if name == Document.__name__ else f"#/$defs/{name}"
            _accept_spellings(schema, generator.models[schema.pop("$model")], here)
    _let_sections_be_null(schemas)
    return schemas


def _let_sections_be_null(schemas: Schema) -> None:
    """Allows null in the schema of a model that is never a list's item: validators then report an error in place."""
    properties = [schema for model in schemas.values() for schema in model.get("properties", {}).values()]
    in_lists = set(_REFERENCE.findall(json.dumps([[schema.get(key) for key in _INNER] for schema in properties])))
    for schema in properties:
        match schema.get("anyOf"):
            case [{"$ref": reference}, {"type": "null"}] if reference not in in_lists:
                schemas[reference.removeprefix("#/$defs/")]["type"] = ["object", "null"]
                del schema["anyOf"]
                schema["$ref"] = reference
            case _:
                pass


def _accept_spellings(schema: Schema, model: type[BaseModel], here: str) -> None:
    """Changes the schema of a model so that it fits every way to spell the model in a document."""
    schema.pop("title", None)
    properties: Schema = schema.setdefault("properties", {})
    others: Schema = {}
    for attribute, (names, field) in zip(model.model_fields, fields_of(model), strict=True):
        key = names[0]
        nullable = shape_at(model, key).kind != "value"
        properties[key] = _value(properties[key], field, default_of(model, attribute), nullable=nullable)
        reference = {"$ref": f"{here}/properties/{key}"}
        properties |= dict.fromkeys(names[1:], reference)
        others |= {_other_spellings(name): reference for name in names if len(_words(name)) > 1}
    if others:
        schema["patternProperties"] = others
    identity: Sequence[str] = getattr(model, "identity", ())
    if identity:
        properties |= {key: {"$ref": "#/$defs/beside"} for key in ORDER_KEYS}
    _require(schema, schema.pop("required", []), identity)


def _require(schema: Schema, required: Sequence[str], identity: Sequence[str]) -> None:
    """Adds the required keys. Items of a list merged by name require only the name: another layer may set the rest."""
    if len(identity) > 1:
        schema["anyOf"] = [{"required": [key]} for key in identity]
        return
    keys = [key for key in required if not identity or key in identity]
    single = [key for key in keys if len(_words(key)) == 1]
    if single:
        schema["required"] = single
    for key in keys:
        if key not in single:
            spelt = ("_".join(_words(key)).lower(), "-".join(_words(key)).lower())
            schema.setdefault("allOf", []).append({"anyOf": [{"required": [name]} for name in (key, *spelt)]})


def _value(schema: Schema, field: FieldInfo, default: object, *, nullable: bool) -> Schema:
    """The schema of a key's value, with its default as spelt in YAML. If `nullable`, null means that it is not set."""
    schema = _without(schema, ("title", "default", *_BOUNDS))
    if field.description:
        schema.setdefault("description", field.description)
    if default not in (None, "", [], {}) and not isinstance(default, dict):
        schema["default"] = default
    if takes(field.annotation, field.metadata) == "quantity" and "ge" in (bounds := bounds_of(field)):
        schema["minimum"] = bounds["ge"]
    return _or_null(schema) if nullable else schema


def _without(schema: Any, keys: Sequence[str]) -> Any:
    """`schema` without `keys` at every level; values such as that of `enum` are data and stay as they are."""
    if isinstance(schema, list):
        return [_without(item, keys) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    data = ("default", "examples", "enum", "const")
    return {key: value if key in data else _without(value, keys) for key, value in schema.items() if key not in keys}


def _or_null(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [{"$ref": schema.pop("$ref")}, _NULL], **schema}
    if "anyOf" in schema:
        branches = schema["anyOf"]
        return {**schema, "anyOf": branches if _NULL in branches else [*branches, _NULL]}
    return {**schema, "type": [schema["type"], "null"]}


# -- spellings


def _words(key: str) -> list[str]:
    return _WORD.findall(key)


def _other_spellings(key: str) -> str:
    """A pattern for the other spellings of a key: for `blockSize`, `block_size`, `block-size` and so on."""
    words = "[-_]?".join(map(_in_any_case, _words(key)))
    return f"^(?!{key}$){words}$"


def _in_any_case(word: str) -> str:
    """A pattern for the word with or without a capital first letter; for an abbreviation, in any case."""
    free = len(word) if word.isupper() else 1
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else c for c in word[:free]) + word[free:]
