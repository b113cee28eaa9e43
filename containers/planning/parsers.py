"""Plans which parsers read requests."""

from __future__ import annotations

from collections.abc import Sequence

from app.extension import Parser
from containers.planning.draft import Draft

DEFAULT_PARSERS = ("openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser")
"""In the order they are asked; the last one takes what no other does."""


def plan_parsers(draft: Draft) -> Sequence[str]:
    """The parsers listed, else the usual ones. A listed name that no plugin has is taken as a type."""
    listed = draft.settings.request_handler.parsers
    if not listed:
        usual = [_usual(draft, name, "requests are parsed by default") for name in DEFAULT_PARSERS]
        return [name for name in usual if name is not None]
    names: list[str] = []
    seen: dict[type, str] = {}
    for index, reference in enumerate(listed):
        origin = draft.configuration.origin("requestHandler", "parsers", index, "pluginRef")
        name = reference.plugin_ref
        if name in draft.disabled:
            draft.used.add(name)
            draft.notes.append(f"requests are parsed without {name}, which is disabled")
            continue
        unlisted = name not in (*draft.plugins, *draft.written_names) and draft.knows(name)
        if unlisted and draft.add(name, "requestHandler.parsers names its type", origin=origin) is None:
            continue
        found = draft.resolve(name, origin, "a parser", Parser)
        if found is None:
            continue
        if found.type.cls in seen:
            message = f"{name!r} is never asked: {seen[found.type.cls]!r} of the same type stands before it"
            draft.faults.warn(origin, message, "list one of them")
        elif names and not _claims(draft, names[-1]):
            message = f"{name!r} is asked before {names[-1]!r}, which takes every path that nobody else claims"
            draft.faults.warn(origin, message, "list it last")
            seen[found.type.cls] = found.name
            names.insert(-1, found.name)
        else:
            seen[found.type.cls] = found.name
            names.append(found.name)
    return names


def _usual(draft: Draft, name: str, why: str) -> str | None:
    if name in draft.disabled:
        return None
    existing = draft.plugins.get(name)
    if existing is None:
        existing = draft.add(name, why)
    draft.used.add(name)
    return existing.name if existing is not None and existing.type.serves(Parser) else None


def _claims(draft: Draft, name: str) -> bool:
    return bool(getattr(draft.plugins[name].type.cls, "paths", ()))
