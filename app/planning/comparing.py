"""Compares the plans of two generations."""

from __future__ import annotations

from app.planning.plan import Plan


def unchanged_plugins(before: Plan, after: Plan) -> frozenset[str]:
    """Names of the plugins that have the same class and parameters in both plans, as do all plugins they refer to."""
    same: dict[str, bool] = {}

    def is_unchanged(name: str) -> bool:
        if name not in same:
            old, new = before.plugins.get(name), after.plugins[name]
            same[name] = (
                old is not None
                and old.type.cls is new.type.cls
                and old.params == new.params
                and all(is_unchanged(reference.name) for reference in new.references)
            )
        return same[name]

    return frozenset(name for name in after.plugins if is_unchanged(name))
