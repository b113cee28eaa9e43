"""Loads plugin classes that are not built in: by entry point, module or file.

Whatever a third-party module raises while it is imported becomes a `PluginTypeError`.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import ModuleType
from typing import Any

from app.extension.marker import mark_of
from app.settings.errors import did_you_mean


class PluginTypeError(Exception):
    """A plugin type is unknown or can't be loaded. `hint` says what to do; empty if there is no hint."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def entry_points(*, group: str) -> Iterable[EntryPoint]:
    """The entry points of installed packages, each package once. Skips packages whose metadata can't be read."""
    seen: set[str] = set()
    for distribution in distributions():
        try:
            name = re.sub(r"[-_.]+", "-", distribution.name).lower()
            points = [] if name in seen else [point for point in distribution.entry_points if point.group == group]
        except Exception:  # noqa: BLE001, S112 - broken metadata of one package must not hide the others
            continue
        seen.add(name)
        yield from points


def package_of(point: EntryPoint) -> str:
    """The name and version of the package of an entry point."""
    distribution: Distribution | None = point.dist
    return f"{distribution.name} {distribution.version}" if distribution else "an unknown package"


def class_of_entry_point(point: EntryPoint) -> type:
    """The class that an entry point names. Raises `PluginTypeError`."""
    what = f"the plugin {point.name!r} of the package {package_of(point)}"
    if EntryPoint.pattern.match(point.value) is None:
        raise PluginTypeError(f"{what} has an invalid entry point: expected module:Class, found {point.value!r}")
    with _imported(what):
        found = point.load()
    if not isinstance(found, type):
        raise PluginTypeError(f"{what} is not a class: {point.value!r} is {_kind(found)}")
    return found


def class_in(module: ModuleType, name: str, where: str) -> type:
    """The class `name` of a module. Raises `PluginTypeError`, whose message calls the module `where`."""
    cls = getattr(module, name, None)
    if not isinstance(cls, type):
        classes = [key for key, value in vars(module).items() if mark_of(value)]
        raise PluginTypeError(f"{where} has no class {name!r}", did_you_mean(name, classes))
    return cls


def module_named(name: str) -> ModuleType:
    """Imports a module. Raises `PluginTypeError`."""
    with _imported(f"the module {name!r}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise PluginTypeError(f"there is no module {name!r}", "is it installed?") from None
            raise


def source_of(path: Path) -> bytes:
    """The content of a plugin file. Raises `PluginTypeError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PluginTypeError(f"the plugin file {path} can't be read: {error.strerror}") from None


def module_in_file(path: Path, source: bytes) -> ModuleType:
    """Runs `source`, which was read from `path`, as a module. Raises `PluginTypeError`.

    Exactly these bytes are compiled, rather than a newer version of the file or bytecode of an older one.
    """
    name = f"pointsman_file_{path.stem}_{digest_of(path, source)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with _imported(f"the plugin file {path}", "loaded"):
            exec(compile(source, str(path), "exec"), vars(module))  # noqa: S102 - a plugin that the user configured
    except PluginTypeError:
        del sys.modules[name]
        raise
    return module


def digest_of(path: Path, source: bytes) -> str:
    """A hash of the path, without following links, and the content of a plugin file."""
    return hashlib.sha256(str(path.absolute()).encode() + b"\0" + source).hexdigest()[:16]


@contextmanager
def _imported(what: str, done: str = "imported") -> Iterator[None]:
    try:
        yield
    except PluginTypeError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginTypeError(f"{what} can't be {done}: {type(error).__name__}: {error}") from error


def _kind(found: Any) -> str:
    return "a module" if isinstance(found, ModuleType) else f"a {type(found).__name__}"
