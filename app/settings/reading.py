"""Records which settings the process itself reads. A change to one of them takes effect only after a restart.

There is no list of these settings: whatever is read through `SettingsReader` is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel

from app.settings.schema import Settings

T = TypeVar("T")


class _Read(NamedTuple):
    function: Callable[[Settings], Any]
    value: Any
    paths: frozenset[str]


class SettingsReader:
    """Reads settings, and records which were read and with what result."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reads: list[_Read] = []

    def read(self, function: Callable[[Settings], T]) -> T:
        """The result of `function`, which must be pure and return a comparable value."""
        value, paths = _recorded(function, self._settings)
        self._reads.append(_Read(function, value, paths))
        return value

    def needing_restart(self, settings: Settings) -> Sequence[str]:
        """The keys, as spelled in YAML, of the settings that were read and give another result in `settings`."""
        changed: dict[str, None] = {}
        for function, before, paths_before in self._reads:
            after, paths_after = _recorded(function, settings)
            if after == before:
                continue
            for path in sorted(paths_before | paths_after):
                if _at(self._settings, path) != _at(settings, path):
                    changed[_yaml_path(path)] = None
        return tuple(changed)


class _Recording:
    """A proxy for a section that records which of its values are read."""

    def __init__(self, section: BaseModel, path: str, paths: set[str]) -> None:
        self.__section = section
        self.__path = path
        self.__paths = paths

    def __getattr__(self, name: str) -> Any:
        computed = getattr(type(self.__section), name, None)
        if isinstance(computed, property) and computed.fget is not None:
            return computed.fget(self)
        value = getattr(self.__section, name)
        path = f"{self.__path}.{name}" if self.__path else name
        if isinstance(value, BaseModel):
            return _Recording(value, path, self.__paths)
        self.__paths.add(path)
        return value


def _recorded(function: Callable[[Settings], T], settings: Settings) -> tuple[T, frozenset[str]]:
    paths: set[str] = set()
    return function(cast("Settings", _Recording(settings, "", paths))), frozenset(paths)


def _at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _yaml_path(path: str) -> str:
    model: type[BaseModel] = Settings
    keys = []
    for name in path.split("."):
        field = model.model_fields[name]
        keys.append(field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    return ".".join(keys)
