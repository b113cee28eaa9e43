"""Plans which parsers read requests."""

from __future__ import annotations

from collections.abc import Sequence

from app.extension import Parser
from app.planning.builder import PlanBuilder

DEFAULT_PARSERS = ("openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser")
"""In the order in which they are tried; the last one takes every request that no other claims."""


def plan_parsers(builder: PlanBuilder) -> Sequence[str]:
    """The listed parsers, or the default ones if none are listed. A listed name without a plugin is read as a type."""
    listed = builder.settings.request_handler.parsers
    if not listed:
        defaults = [_default(builder, name, "requests are parsed by default") for name in DEFAULT_PARSERS]
        return [name for name in defaults if name is not None]
    names: list[str] = []
    seen: dict[type, str] = {}
    for index, reference in enumerate(listed):
        origin = builder.configuration.origin("requestHandler", "parsers", index, "pluginRef")
        name = reference.plugin_ref
        if name in builder.disabled:
            builder.used.add(name)
            builder.notes.append(f"requests are parsed without {name}, which is disabled")
            continue
        unlisted = name not in (*builder.plugins, *builder.listed_names) and builder.knows(name)
        if unlisted and builder.add(name, "requestHandler.parsers names its type", origin=origin) is None:
            continue
        found = builder.resolve(name, origin, "a parser", Parser)
        if found is None:
            continue
        if found.type.cls in seen:
            message = f"{name!r} is never used: {seen[found.type.cls]!r} of the same type comes before it"
            builder.faults.warn(origin, message, "list only one of them")
        elif names and not _claims(builder, names[-1]):
            message = f"{name!r} is tried before {names[-1]!r}, which takes every path that no other parser claims"
            builder.faults.warn(origin, message, f"list {names[-1]!r} last")
            seen[found.type.cls] = found.name
            names.insert(-1, found.name)
        else:
            seen[found.type.cls] = found.name
            names.append(found.name)
    return names


def _default(builder: PlanBuilder, name: str, why: str) -> str | None:
    if name in builder.disabled:
        return None
    existing = builder.plugins.get(name)
    if existing is None:
        existing = builder.add(name, why)
    builder.used.add(name)
    return existing.name if existing is not None and existing.type.serves(Parser) else None


def _claims(builder: PlanBuilder, name: str) -> bool:
    return bool(getattr(builder.plugins[name].type.cls, "paths", ()))
