"""What the process itself reads of the settings. It can't change while the process runs, so a change needs a restart.

Nothing is listed by hand: reading a setting is what makes it one of these.
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
    """Reads settings, and remembers what was read and what came of it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reads: list[_Read] = []

    def read(self, function: Callable[[Settings], T]) -> T:
        """`function` of the settings: a pure function, whose result can be compared."""
        value, paths = _recorded(function, self._settings)
        self._reads.append(_Read(function, value, paths))
        return value

    def needing_restart(self, settings: Settings) -> Sequence[str]:
        """The keys, in YAML's spelling, of what was read and comes out differently with `settings`."""
        changed: dict[str, None] = {}
        for function, before, paths_before in self._reads:
            after, paths_after = _recorded(function, settings)
            if after == before:
                continue
            for path in sorted(paths_before | paths_after):
                if _at(self._settings, path) != _at(settings, path):
                    changed[_spelt(path)] = None
        return tuple(changed)


class _Recording:
    """Stands for a section, and records which of its values are read."""

    def __init__(self, section: BaseModel, path: str, paths: set[str]) -> None:
        self.__section = section
        self.__path = path
        self.__paths = paths

    def __getattr__(self, name: str) -> Any:
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


def _spelt(path: str) -> str:
    model: type[BaseModel] = Settings
    keys = []
    for name in path.split("."):
        field = model.model_fields[name]
        keys.append(field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    return ".".join(keys)
