"""The plugin types by name: built-in, installed, or given by the address of a class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from app.catalogue.loading import (
    PluginTypeError,
    class_in,
    class_of_entry_point,
    digest_of,
    entry_points,
    module_in_file,
    module_named,
    package_of,
    source_of,
)
from app.catalogue.signatures import check_methods, check_renamed
from app.extension import (
    AnyFactKey,
    Clock,
    Discovery,
    EndpointsFiles,
    Extractor,
    Filter,
    HttpClient,
    InFlight,
    InFlightListener,
    Lifecycle,
    MetricsRegistry,
    MetricsSource,
    OnFinished,
    OnFirstToken,
    OnRefused,
    OnScheduled,
    Parser,
    Picker,
    PluginName,
    PluginParams,
    Pool,
    Producer,
    ProfilePicker,
    Random,
    Scorer,
)
from app.extension.marker import PluginMark, mark_of
from app.settings.errors import did_you_mean

ENTRY_POINT_GROUP = "pointsman.plugins"

EXTENSION_POINTS: Sequence[type] = (
    ProfilePicker, Filter, Scorer, Picker, Producer, OnScheduled, OnFirstToken, OnFinished, OnRefused, Parser,
    Discovery, MetricsSource, Extractor, Lifecycle,
)  # fmt: skip

SERVICES: Sequence[Any] = (Clock, Random, HttpClient, MetricsRegistry, InFlight, Pool, EndpointsFiles, PluginName)
"""The types with which a parameter of a plugin's constructor may be annotated."""


class NoParams(PluginParams):
    """The parameters of a plugin that takes none."""


@dataclass(frozen=True, slots=True)
class PluginType:
    """A plugin class, and what can be read from it without an instance."""

    mark: PluginMark
    cls: type
    params: type[PluginParams]
    params_argument: str | None
    """The constructor's argument for the parameters; None if it takes none."""
    services: Mapping[str, Any]
    """The services that the constructor takes, by argument."""
    extension_points: frozenset[type]

    def serves(self, *points: type) -> bool:
        """Whether it implements one of the extension points."""
        return any(point in self.extension_points for point in points)

    def needs(self, params: PluginParams) -> Sequence[AnyFactKey]:
        """Facts that it requires."""
        return _declared(self.cls, "needs", params)

    def wants(self, params: PluginParams) -> Sequence[AnyFactKey]:
        """Facts that it uses if something produces them."""
        return _declared(self.cls, "wants", params)

    def produces(self, name: str, params: PluginParams) -> Sequence[AnyFactKey]:
        """Facts that the instance `name` produces."""
        return _declared(self.cls, "produces", name, params)


def _declared(cls: type, attribute: str, *arguments: object) -> Sequence[Any]:
    declared = getattr(cls, attribute, ())
    keys = declared(*arguments) if callable(declared) else declared
    return tuple(sorted(keys, key=str) if isinstance(keys, set | frozenset) else keys)


@dataclass
class Catalogue:
    """Finds plugin types by name. The address of a class, `module:Class` or `file.py:Class`, is a name too."""

    package: ModuleType
    """The package with the built-in plugins."""
    _by_address: dict[object, PluginType] = field(default_factory=dict)
    _failed: dict[str, PluginTypeError] = field(default_factory=dict)
    """Errors by name. A module that failed is not imported again, since the second error may be a misleading one."""

    @property
    def built_in(self) -> Mapping[str, PluginType]:
        """The types under `plugins/`, by name and alias."""
        return _types_below(self.package)

    @cached_property
    def installed(self) -> Mapping[str, Sequence[EntryPoint]]:
        """The entry points of installed packages, by plugin type. Imports none of them."""
        found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
        for point in entry_points(group=ENTRY_POINT_GROUP):
            found.setdefault(point.name, {})[package_of(point), point.value] = point
        return {name: tuple(points[key] for key in sorted(points)) for name, points in found.items()}

    def refresh(self) -> None:
        """Reads again which packages are installed. Classes that are loaded stay the same objects."""
        importlib.invalidate_caches()
        self.__dict__.pop("installed", None)
        self._failed.clear()

    @property
    def names(self) -> list[str]:
        """All names that a configuration can use, apart from addresses of classes."""
        return sorted({*self.built_in, *self.installed})

    def hidden(self, name: str) -> str:
        """The installed packages whose type `name` is hidden by a built-in one; empty if there are none."""
        points = self.installed.get(name, ()) if name in self.built_in else ()
        return ", ".join(map(package_of, points))

    def find(self, name: str) -> PluginType:
        """The type called `name`, or the class at the address `name`.

        Raises `PluginTypeError` when there is none, when several packages claim it, or when it can't be imported.
        """
        if name in self.built_in:
            return self.built_in[name]
        if name in self._failed:
            raise self._failed[name]
        try:
            return self._at_address(name) if ":" in name else self._installed(name)
        except PluginTypeError as error:
            self._failed[name] = error
            raise

    def params_model(self, name: str) -> type[PluginParams] | None:
        """The model of a type's parameters; None if there is no such type."""
        try:
            return self.find(name).params
        except PluginTypeError:
            return None

    def _installed(self, name: str) -> PluginType:
        points = self.installed.get(name, ())
        if len(points) > 1:
            owners = ", ".join(map(package_of, points))
            raise PluginTypeError(
                f"several packages provide the plugin type {name!r}: {owners}", "uninstall all but one"
            )
        if not points:
            raise PluginTypeError(f"unknown plugin type {name!r}", did_you_mean(name, self.names))
        (point,) = points
        if point.value not in self._by_address:
            cls = class_of_entry_point(point)
            try:
                self._by_address[point.value] = describe(cls, point.value)
            except PluginTypeError as error:
                raise PluginTypeError(f"{error} (from the package {package_of(point)})", error.hint) from error
        return self._by_address[point.value]

    def _at_address(self, address: str) -> PluginType:
        where, _, name = address.rpartition(":")
        path = Path(where) if where.endswith(".py") else None
        source = b"" if path is None else source_of(path)
        key = address if path is None else f"{digest_of(path, source)}:{name}"
        if key not in self._by_address:
            module = module_named(where) if path is None else module_in_file(path, source)
            self._by_address[key] = describe(class_in(module, name, where), address)
        return self._by_address[key]


@cache
def _types_below(package: ModuleType) -> Mapping[str, PluginType]:
    """Cached: the built-in types do not change while the process runs."""
    types: dict[str, PluginType] = {}
    for found in _classes_below(package):
        for name in (found.mark.type, *found.mark.aliases):
            if name in types:
                message = f"two plugins are named {name!r}: {types[name].cls} and {found.cls}"
                raise RuntimeError(message)
            types[name] = found
    return MappingProxyType(types)


def describe(cls: type, address: str) -> PluginType:
    """The plugin type of the class at `address`. Raises `PluginTypeError` if the class can't be a plugin."""
    check_renamed(cls, address)
    mark = mark_of(cls) or PluginMark(address)
    points = [point for point in EXTENSION_POINTS if _implements(cls, point)]
    if not set(points) - {Lifecycle}:
        raise PluginTypeError(
            f"the class {address} implements no extension point", "does it have a method such as score?"
        )
    listeners = [InFlightListener] if isinstance(cls, InFlightListener) else []
    check_methods(cls, [*points, *listeners], address)
    params: type[PluginParams] = NoParams
    argument: str | None = None
    services: dict[str, Any] = {}
    for name, annotation, required in _constructor(cls, address):
        if isinstance(annotation, type) and issubclass(annotation, PluginParams):
            params, argument = annotation, name
        elif annotation in SERVICES:
            services[name] = annotation
        elif required:
            known = ", ".join(getattr(service, "__name__", str(service)) for service in SERVICES)
            message = f"the constructor of {address} has the parameter {name!r}, whose type is not a service"
            raise PluginTypeError(message, f"the services are {known}")
    return PluginType(mark, cls, params, argument, services, frozenset(points))


def _constructor(cls: type, address: str) -> Iterator[tuple[str, Any, bool]]:
    """The name and annotation of each parameter of the constructor, and whether it is required."""
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return
    nested = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    try:
        hints = typing.get_type_hints(cls.__init__, localns=nested)  # type: ignore[misc]
    except Exception as error:  # an annotation may be any expression, and raise anything
        message = f"the types of {address}'s constructor can't be resolved: {type(error).__name__}: {error}"
        raise PluginTypeError(message, "import them outside of 'if TYPE_CHECKING'") from error
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:  # type: ignore[misc]
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield name, hints.get(name), parameter.default is parameter.empty


def _implements(cls: type, point: type) -> bool:
    """Whether `cls` defines the methods of `point`. Attributes that its constructor sets do not count."""
    members = {name for name in vars(point) if not name.startswith("_")}
    return all(callable(getattr(cls, member, None)) for member in members)


def _classes_below(package: ModuleType) -> Iterator[PluginType]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if mark_of(value) and value.__module__ == info.name:
                yield describe(value, f"{info.name}:{value.__name__}")
