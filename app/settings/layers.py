"""Loads and merges the layers of a configuration, lowest precedence first: files, text, environment, `--set`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from app.settings.dialects.forms import DOCUMENT
from app.settings.dialects.translation import expand_short_profiles, to_current
from app.settings.errors import Faults, UsageError
from app.settings.keys import PlacementHint, name_of, normalise
from app.settings.merging import merge
from app.settings.picker_config import PluginSpec
from app.settings.reader import read_scalar, read_yaml
from app.settings.sets import ROOT, nested, set_layer
from app.settings.shapes import Shape, fold, keys_of, shape_at
from app.settings.tree import Entries, Entry, Items, Node, Origin, Scalar

BUILTIN = "builtin:"
ENVIRONMENT_PREFIX = "POINTSMAN_"

_PLUGIN_IDENTITY: tuple[str, ...] = PluginSpec.identity

ParamsModel = Callable[[str], type[BaseModel] | None]
"""Takes a plugin type and returns the model of its parameters, None if the type is unknown."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The configuration sources given on the command line and in the environment."""

    files: Sequence[str] = ()
    """Paths or `builtin:NAME`, lowest precedence first."""
    text: str | None = None
    """The value of `--config-text`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    sets: Sequence[str] = ()
    """The values of `--set`, each `path=value`."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are not built in."""
        return tuple(Path(name) for name in self.files if not name.startswith(BUILTIN))


def shipped(name: str) -> Path:
    """The path of the built-in configuration `name`."""
    return Path(__file__).parents[2] / "config" / f"{name}.yaml"


def load_layers(sources: Sources, params_model: ParamsModel, faults: Faults) -> Entries:
    """All layers merged, with keys spelled as in the schema.

    Without files and text the first layer is `builtin:default`. Errors in the content go to `faults`. Raises
    `UsageError` if a file can't be read or a `--set` is malformed.
    """
    files = sources.files or ([] if sources.text is not None else [f"{BUILTIN}default"])
    faults.sources += [*files, "--config-text"]
    layers = [read_yaml(_content(name), name, faults) for name in files]
    if sources.text is not None:
        layers.append(read_yaml(sources.text, "--config-text", faults))
    layers += _environment_layers(sources.environment, faults)
    layers += [set_layer(text, faults) for text in sources.sets]
    merged: Node = Entries({}, layers[0].origin if layers else Origin("default"))
    for layer in layers:
        merged = _merge_layer(merged, layer, params_model, faults)
    assert isinstance(merged, Entries)  # noqa: S101 - mappings merge to a mapping
    return merged


def _merge_layer(merged: Node, layer: Entries, params_model: ParamsModel, faults: Faults) -> Node:
    hint = _document_hint(params_model, _types_by_name(merged))
    document = normalise(expand_short_profiles(layer, faults), DOCUMENT, faults, hint)
    assert isinstance(document, Entries)  # noqa: S101 - a mapping stays a mapping
    current = to_current(document, _types_by_name(merged), faults)
    normal = normalise(current, ROOT, faults, hint)  # reports duplicates that only the translation brings together
    return merge(merged, _with_normal_parameters(normal, merged, params_model, faults), ROOT, faults)


def _with_normal_parameters(layer: Node, merged: Node, params_model: ParamsModel, faults: Faults) -> Node:
    """The layer with the keys of plugin parameters spelled as in the models of the plugins."""
    plugins = layer.get("plugins") if isinstance(layer, Entries) else None
    if not isinstance(layer, Entries) or not isinstance(plugins, Items):
        return layer
    inherited = _types_by_name(merged)
    items = tuple(_with_parameters(item, inherited, params_model, faults) for item in plugins.items)
    return layer.with_("plugins", Entry(layer.entries["plugins"].origin, Items(items, plugins.origin)))


def _with_parameters(item: Node, inherited: Mapping[str, str], params_model: ParamsModel, faults: Faults) -> Node:
    entry = item.entries.get("parameters") if isinstance(item, Entries) else None
    if not isinstance(item, Entries) or entry is None:
        return item
    name = item.text("name", "type") or ""
    model = params_model(item.text("type") or inherited.get(name, name))
    if model is None or not isinstance(entry.node, Entries):
        return item
    normal = normalise(entry.node, Shape("model", model=model), faults, _parameters_hint(model))
    return item.with_("parameters", Entry(entry.origin, normal))


def _types_by_name(merged: Node) -> dict[str, str]:
    plugins = merged.get("plugins") if isinstance(merged, Entries) else None
    items = plugins.items if isinstance(plugins, Items) else ()
    return {
        name_of(item, _PLUGIN_IDENTITY) or "": item.text("type") or "" for item in items if isinstance(item, Entries)
    }


def _content(name: str) -> bytes:
    builtin = name.removeprefix(BUILTIN) if name.startswith(BUILTIN) else None
    path = Path(name) if builtin is None else shipped(builtin)
    try:
        return path.read_bytes()
    except OSError as error:
        if builtin is not None:
            known = sorted(file.stem for file in shipped("default").parent.glob("*.yaml"))
            raise UsageError(f"{name}: no such built-in configuration; known: {', '.join(known)}") from None
        raise UsageError(f"{name}: {error.strerror or error}") from None


# -- the environment: POINTSMAN_SECTION__KEY


def _environment_layers(environment: Mapping[str, str], faults: Faults) -> list[Entries]:
    layers = []
    for name in sorted(environment):
        steps = name.removeprefix(ENVIRONMENT_PREFIX).split("__")
        if not name.startswith(ENVIRONMENT_PREFIX) or len(steps) == 1:
            continue
        origin = Origin(f"environment {name}")
        node: Node = Scalar(read_scalar(environment[name]), origin)
        layers.append(nested([(step, None) for step in steps], node, origin))
        if any(shape.kind == "list" for shape in _shapes_along(steps)):
            faults.error(origin, "environment variables can't set values inside a list", "use --set")
            layers.pop()
    return layers


def _shapes_along(steps: Sequence[str]) -> list[Shape]:
    shape, shapes = ROOT, []
    for step in steps[:-1]:
        key = keys_of(shape.model).get(fold(step)) if shape.model is not None else None
        if key is None or shape.model is None:
            break
        shape = shape_at(shape.model, key)
        shapes.append(shape)
    return shapes


# -- hints


def _document_hint(params_model: ParamsModel, inherited: Mapping[str, str]) -> PlacementHint:
    """For unknown keys of a document: a key next to `parameters` may belong in them."""

    def hint(folded: str, node: Entries) -> str:
        name = node.text("name") or ""
        type_name = node.text("type", "plugin") or inherited.get(name, name)
        model = params_model(type_name) if type_name else None
        if model is not None and folded in keys_of(model):
            holder = "args" if "args" in node.entries else "parameters"
            return f"{keys_of(model)[folded]!r} of {type_name} belongs in its {holder}"
        return _schema_hint(folded)

    return hint


def _parameters_hint(model: type[BaseModel]) -> PlacementHint:
    """For unknown plugin parameters: unless it resembles a parameter, the key may belong in the plugin's entry."""

    def hint(folded: str, _: Entries) -> str:
        near = difflib.get_close_matches(folded, keys_of(model), n=1)
        return "" if near or folded not in _PLUGIN_KEYS else _schema_hint(folded)

    return hint


_PLUGIN_KEYS = ("weight", "enabled", "type", "pluginref", "before", "after")


def _schema_hint(folded: str) -> str:
    """Where the schema has this key; empty if nowhere."""
    places = _places().get(folded, [])
    key = places[0].rpartition(".")[2] if places else ""
    return (
        f"{key!r} belongs in {' or '.join(p.rpartition('.')[0] or 'the top level' for p in places[:2])}" if key else ""
    )


@cache
def _places() -> Mapping[str, list[str]]:
    """The paths of each key in the schema, by folded key."""
    places: dict[str, list[str]] = {}

    def visit(shape: Shape, path: str) -> None:
        if shape.kind == "list" and shape.inner is not None:
            visit(shape.inner, f"{path}[]")
        elif shape.kind == "model" and shape.model is not None:
            for folded, key in keys_of(shape.model).items():
                here = f"{path}.{key}" if path else key
                places.setdefault(folded, []).append(here)
                visit(shape_at(shape.model, key), here)

    visit(ROOT, "")
    return places
