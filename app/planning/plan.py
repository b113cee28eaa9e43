"""The plan of one generation, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.catalogue.catalogue import PluginType
from app.extension import PluginParams


@dataclass(frozen=True, slots=True)
class Reference:
    """A parameter that names another plugin."""

    name: str
    point: type
    """The extension point that the other plugin must serve."""


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """One plugin instance."""

    name: str
    type_name: str
    """As spelt in the configuration: a type, an alias or the address of a class."""
    type: PluginType
    parameters: str
    """The configured parameters as JSON."""
    params: PluginParams
    """Validated; a reference to another plugin is still a name."""
    references: Sequence[Reference] = ()
    added: str = ""
    """Why it was added; empty if the configuration lists it."""


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """One profile, by plugin names."""

    name: str
    filters: Sequence[str]
    scorers: Sequence[tuple[str, float]]
    """With their weights."""
    picker: str


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A metrics source and its extractors."""

    source: str
    extractors: Sequence[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the generation container builds. Every name is a key of `plugins`."""

    plugins: Mapping[str, PluginPlan]
    profiles: Sequence[ProfilePlan]
    profile_picker: str
    producers: Sequence[str]
    """In the order in which they run."""
    sources: Sequence[SourcePlan]
    parsers: Sequence[str]
    """In the order in which they are tried."""
    discovery: str | None
    notes: Sequence[str] = ()
    """What was added to the configuration or left out of it, one sentence each."""
