"""Describes plugin types for documentation, by plain values read from their classes and parameter models."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel

from app.catalogue.catalogue import EXTENSION_POINTS, Catalogue, PluginType
from app.catalogue.loading import PluginTypeError
from app.describing.examples import Example
from app.describing.fields import default_of, range_in_words, takes
from app.extension import AnyFactKey
from app.settings.shapes import fields_of, shape_of

BUILT_IN = "built in"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One key below a plugin's `parameters`."""

    key: str
    """As spelt in YAML, with the keys that it is below: `rules[].profile`."""
    takes: str
    """The type of its value, in words."""
    purpose: str
    required: bool = False
    default: str = ""
    """As JSON; empty if there is none."""
    range: str = ""
    """Bounds in words; empty if there are none."""
    other_names: Sequence[str] = ()
    """Other names that are accepted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact and the plugin type that produces it by default."""

    name: str
    producer: str


@dataclass(frozen=True, slots=True)
class Description:
    """A plugin type."""

    type: str
    purpose: str
    """The class's whole docstring."""
    origin: str
    """`built in`, or the package that it is from; empty for a class given by its address."""
    extension_points: Sequence[str]
    """In the order in which a request meets them."""
    stability: str
    category: str = ""
    aliases: Sequence[str] = ()
    deprecated: Mapping[str, str] = field(default_factory=dict)
    """What to use instead of each deprecated name."""
    parameters: Sequence[Parameter] = ()
    needs: Sequence[Fact] = ()
    wants: Sequence[Fact] = ()
    produces: Sequence[Fact] = ()
    example: str = ""
    """A configuration with this plugin, as YAML."""

    @property
    def summary(self) -> str:
        """The first sentence of the purpose."""
        first = " ".join(self.purpose.partition("\n\n")[0].split())
        sentence, stop, _ = first.partition(". ")
        return sentence + stop.rstrip()


@dataclass(frozen=True, slots=True)
class Broken:
    """An installed plugin type that can't be loaded."""

    type: str
    packages: Sequence[str]
    reason: str


def built_in_types(catalogue: Catalogue) -> Sequence[Description]:
    """The types that come with Pointsman, sorted by extension point, then by name."""
    found = {kind.mark.type: kind for kind in catalogue.built_in.values()}
    return _sorted(_described(name, kind, catalogue, BUILT_IN) for name, kind in found.items())


def installed_types(catalogue: Catalogue) -> tuple[Sequence[Description], Sequence[Broken]]:
    """The types of installed packages, and those that can't be loaded. Imports all of them."""
    described, broken = [], []
    for name, points in sorted(catalogue.installed.items()):
        packages = [_package(point) for point in points]
        if name in catalogue.built_in:
            broken.append(Broken(name, packages, "a built-in type has this name and is used instead"))
            continue
        try:
            described.append(_described(name, catalogue.find(name), catalogue, ", ".join(packages)))
        except PluginTypeError as error:
            broken.append(Broken(name, packages, f"{error}; {error.hint}" if error.hint else str(error)))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code may raise anything
            broken.append(Broken(name, packages, f"{type(error).__name__}: {error}"))
    return _sorted(described), broken


def describe_type(name: str, catalogue: Catalogue) -> Description:
    """The type called `name`, or the class at that address. Raises `PluginTypeError`."""
    found = catalogue.find(name)
    if found.mark.type in catalogue.built_in and catalogue.built_in[found.mark.type].cls is found.cls:
        return _described(found.mark.type, found, catalogue, BUILT_IN)
    origin = ", ".join(map(_package, catalogue.installed.get(name, ())))
    return _described(name, found, catalogue, origin)


def _described(name: str, found: PluginType, catalogue: Catalogue, origin: str) -> Description:
    mark = found.mark
    example = Example(name, found, catalogue)
    return Description(
        type=name,
        purpose=inspect.cleandoc(found.cls.__doc__ or ""),
        origin=origin,
        extension_points=[point.__name__ for point in EXTENSION_POINTS if point in found.extension_points],
        stability=mark.stability,
        category=mark.category,
        aliases=mark.aliases if origin == BUILT_IN else (),
        deprecated=dict(mark.deprecated),
        parameters=list(_parameters(found.params)),
        needs=_facts(lambda: found.needs(example.params())),
        wants=_facts(lambda: found.wants(example.params())),
        produces=_facts(lambda: found.produces(example.name, example.params())),
        example=_text_of(example),
    )


def _text_of(example: Example) -> str:
    try:
        return example.text()
    except Exception:  # noqa: BLE001 - depends on third-party code
        return ""


def _facts(read: Callable[[], Sequence[AnyFactKey]]) -> Sequence[Fact]:
    """The facts; empty if reading them fails, because of the made-up parameters or a bug in the class."""
    try:
        return [Fact(key.name, key.producer) for key in read()]
    except Exception:  # noqa: BLE001 - third-party code
        return ()


def _parameters(model: type[BaseModel], above: str = "", seen: tuple[type[BaseModel], ...] = ()) -> Iterator[Parameter]:
    if model in seen:
        return
    for attribute, (names, about) in zip(model.model_fields, fields_of(model), strict=True):
        key = f"{above}{names[0]}"
        yield Parameter(
            key=key,
            takes=takes(about.annotation, about.metadata),
            purpose=" ".join((about.description or "").split()),
            required=about.is_required(),
            default=_shown(default_of(model, attribute)),
            range=range_in_words(about),
            other_names=names[1:],
        )
        yield from _below(about.annotation, key, (*seen, model))


def _below(annotation: Any, key: str, seen: tuple[type[BaseModel], ...]) -> Iterator[Parameter]:
    shape = shape_of(annotation)
    while shape.inner is not None:
        key += "[]" if shape.kind == "list" else ".*"
        shape = shape.inner
    if shape.model is not None:
        yield from _parameters(shape.model, f"{key}.", seen)


def _shown(default: object) -> str:
    return "" if default is None else json.dumps(default, ensure_ascii=False)


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"


def _sorted(descriptions: Iterator[Description] | Sequence[Description]) -> Sequence[Description]:
    order = [point.__name__ for point in EXTENSION_POINTS]
    return sorted(descriptions, key=lambda about: (order.index(about.extension_points[0]), about.type))
