"""Hands what plugins learnt from one configuration to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.named import Named
from app.extension import Successor


def hand_over(before: Sequence[Named[Any]], after: Sequence[Named[Any]]) -> None:
    """Has each plugin of `after` that can inherit do so from its predecessor.

    That is the instance of the same class with the same name or, if both have just one instance of the class, that one.
    """
    old, new = _by_class(before), _by_class(after)
    for cls, instances in new.items():
        predecessors = old.get(cls, {})
        renamed = len(instances) == len(predecessors) == 1
        for name, plugin in instances.items():
            predecessor = next(iter(predecessors.values())) if renamed else predecessors.get(name)
            if predecessor is not None and isinstance(plugin, Successor):
                plugin.inherit_from(predecessor)


def _by_class(plugins: Sequence[Named[Any]]) -> Mapping[type, Mapping[str, Any]]:
    found: dict[type, dict[str, Any]] = {}
    for name, plugin in plugins:
        found.setdefault(type(plugin), {})[name] = plugin
    return found
