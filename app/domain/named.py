"""A plugin with its instance name."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")


class Named(NamedTuple, Generic[P]):
    """A plugin with its instance name."""

    name: str
    plugin: P
