"""A plugin under its instance name."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")


class Named(NamedTuple, Generic[P]):
    """A plugin under its instance name."""

    name: str
    plugin: P
