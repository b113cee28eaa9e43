"""The decorator that names a plugin class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

Stability = Literal["alpha", "beta", "stable"]
"""How likely the parameters are to change. For the documentation only: any plugin can be used."""

Category = Literal["affinity", "distribution", "balance", ""]
"""What a scorer works towards: reuse of cached state, even load, or both."""

MARK = "__pointsman_plugin__"

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class PluginMark:
    """The arguments of `@plugin`."""

    type: str
    aliases: tuple[str, ...] = ()
    stability: Stability = "beta"
    category: Category = ""
    deprecated: Mapping[str, str] = field(default_factory=dict)
    """Deprecated names, each with the type to use instead."""


def plugin(
    type: str,  # noqa: A002 - the name of the key in YAML
    *,
    aliases: tuple[str, ...] = (),
    stability: Stability = "beta",
    category: Category = "",
    deprecated: Mapping[str, str] | None = None,
) -> Callable[[C], C]:
    """Gives a class its plugin type: `type` is its name in a configuration, `aliases` are more names for it.

    Nothing is registered: the catalogue finds marked classes in `plugins/`, and the others by entry point or address.
    """

    def mark(cls: C) -> C:
        setattr(cls, MARK, PluginMark(type, aliases, stability, category, deprecated or {}))
        return cls

    return mark


def mark_of(cls: object) -> PluginMark | None:
    """The mark set on `cls` itself, not on a base class."""
    found = vars(cls).get(MARK) if isinstance(cls, type) else None
    return found if isinstance(found, PluginMark) else None
