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
    """The schema as it is written to a file."""
    return json.dumps(document_schema(catalogue), indent=1, ensure_ascii=False) + "\n"


def document_schema(catalogue: Catalogue) -> Schema:
    """The schema of one document, which is one layer: what another layer may say needs not be there.

    A key may be spelt in each way that is read. A plugin type is any text, since it may be installed or in a file; the
    parameters of the built-in ones are checked.
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
        "description": "Name of the item that a new one stands beside.",
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
    head = {"$schema": DIALECT, "title": "A configuration of Pointsman"}
    return {**head, **root, "$defs": dict(sorted(definitions.items()))}


# -- plugin types


def _plugin_definitions(catalogue: Catalogue) -> Schema:
    """The types, the parameters of each, and what ties the two together."""
    names: dict[type[BaseModel], list[str]] = {}
    for name, found in sorted(catalogue.built_in.items()):
        names.setdefault(found.params, []).append(name)
    definitions: Schema = {}
    for model, types in names.items():
        main = catalogue.built_in[types[0]].mark.type if model.model_fields else "no-parameters"
        definitions |= _definitions(model, main)
        definitions[main].pop("required", None)  # another layer may have them
        definitions[main]["type"] = ["object", "null"]
        names[model] = [main, *types]
    usual = sorted(name for name, found in catalogue.built_in.items() if name not in found.mark.deprecated)
    definitions["plugin-type"] = {"anyOf": [{"enum": usual}, {"type": "string"}]}
    tied = list(names.values())
    for key in ("type", "plugin"):
        definitions[f"parameters-by-{key}"] = {
            "allOf": [_when(_is(key, types), main, "parameters") for main, *types in tied]
        }
    definitions["args-in-place"] = {
        "allOf": [_when(_is_in_place(types), main, "args", "parameters") for main, *types in tied]
    }
    return definitions


def _when(condition: Schema, definition: str, *keys: str) -> Schema:
    return {"if": condition, "then": {"properties": {key: {"$ref": f"#/$defs/{definition}"} for key in keys}}}


def _is(key: str, types: Sequence[str]) -> Schema:
    value: Schema = {"const": types[0]} if len(types) == 1 else {"enum": list(types)}
    return {"properties": {key: value}, "required": [key]}


def _is_in_place(types: Sequence[str]) -> Schema:
    """In place a plugin's type is its `type`, or its `name` where it has no `type`."""
    return {"anyOf": [_is("type", types), {**_is("name", types), "not": {"required": ["type"]}}]}


def _a_type(schema: Schema) -> Schema:
    return {**{key: value for key, value in schema.items() if key != "type"}, "$ref": "#/$defs/plugin-type"}


# -- models


class _Generator(GenerateJsonSchema):
    """Pydantic's, less the titles; each model's schema says under `$model` whose it is."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def __init__(self, ref_template: str) -> None:
        super().__init__(ref_template=ref_template)
        self.models: dict[str, type[BaseModel]] = {}

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Keys are their own titles."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        """The model's schema and name."""
        model = cast("type[BaseModel]", schema["cls"])
        name = f"{model.__module__}:{model.__qualname__}"
        self.models[name] = model
        return {**super().model_schema(schema), "$model": name}


def _definitions(model: type[BaseModel], main: str) -> Schema:
    """The schemas of `model` and of the models in it, as YAML may spell their keys.

    The model's own is under `main`, by default its name; those in it are under their names, after `main` if given.
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
            _as_written(schema, generator.models[schema.pop("$model")], here)
    _let_sections_be_null(schemas)
    return schemas


def _let_sections_be_null(schemas: Schema) -> None:
    """Where a model is never a list's item, null is said of the model: a fault in it is then told at its own place."""
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


def _as_written(schema: Schema, model: type[BaseModel], here: str) -> None:
    """Makes of the schema of a model that of what a document may say of it."""
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
    _demand(schema, schema.pop("required", []), identity)


def _demand(schema: Schema, required: Sequence[str], identity: Sequence[str]) -> None:
    """What must be there. Of an item of a named list only its name: another layer may have the rest."""
    if len(identity) > 1:
        schema["anyOf"] = [{"required": [key]} for key in identity]
        return
    demanded = [key for key in required if not identity or key in identity]
    single = [key for key in demanded if len(_words(key)) == 1]
    if single:
        schema["required"] = single
    for key in demanded:
        if key not in single:
            spelt = ("_".join(_words(key)).lower(), "-".join(_words(key)).lower())
            schema.setdefault("allOf", []).append({"anyOf": [{"required": [name]} for name in (key, *spelt)]})


def _value(schema: Schema, field: FieldInfo, default: object, *, nullable: bool) -> Schema:
    """The schema of a key's value: its default as YAML has it, and, if `nullable`, null as good as nothing."""
    schema = _without(schema, ("title", "default", *_BOUNDS))
    if field.description:
        schema.setdefault("description", field.description)
    if default not in (None, "", [], {}) and not isinstance(default, dict):
        schema["default"] = default
    if takes(field.annotation, field.metadata) == "quantity" and "ge" in (bounds := bounds_of(field)):
        schema["minimum"] = bounds["ge"]
    return _or_null(schema) if nullable else schema


def _without(schema: Any, keys: Sequence[str]) -> Any:
    """`schema` less what is no keyword of JSON Schema, or says nothing."""
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
    """A pattern of the key's other spellings: `block_size`, `block-size` and so on of `blockSize`."""
    words = "[-_]?".join(map(_in_any_case, _words(key)))
    return f"^(?!{key}$){words}$"


def _in_any_case(word: str) -> str:
    """The word in small letters or with a capital; an abbreviation in any case."""
    free = len(word) if word.isupper() else 1
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else c for c in word[:free]) + word[free:]
