"""The marker that makes a class a plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

Stability = Literal["alpha", "beta", "stable"]
"""How likely the plugin's parameters change. It is shown, it never gates."""

Category = Literal["affinity", "distribution", "balance", ""]
"""What a scorer pulls towards: cached state, even load, or both."""

MARK = "__pointsman_plugin__"

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class PluginMark:
    """What `@plugin` says about a class."""

    type: str
    aliases: tuple[str, ...] = ()
    stability: Stability = "beta"
    category: Category = ""
    deprecated: Mapping[str, str] = field(default_factory=dict)
    """Names of it that are on their way out, and the type to use instead of each."""


def plugin(
    type: str,  # noqa: A002 - the name it has in YAML
    *,
    aliases: tuple[str, ...] = (),
    stability: Stability = "beta",
    category: Category = "",
    deprecated: Mapping[str, str] | None = None,
) -> Callable[[C], C]:
    """Marks a class as the plugin `type`, the name that a configuration uses.

    Nothing is registered: the catalogue finds marked classes where it looks for them.
    """

    def mark(cls: C) -> C:
        setattr(cls, MARK, PluginMark(type, aliases, stability, category, deprecated or {}))
        return cls

    return mark


def mark_of(cls: object) -> PluginMark | None:
    """The mark set on `cls` itself, not on a base class."""
    found = vars(cls).get(MARK) if isinstance(cls, type) else None
    return found if isinstance(found, PluginMark) else None
