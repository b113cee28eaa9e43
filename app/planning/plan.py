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
    """As the configuration wrote it."""
    type: PluginType
    parameters: str
    """As JSON."""
    params: PluginParams
    """Checked; a reference in it is still a name."""
    references: Sequence[Reference] = ()
    added: str = ""
    """Why it exists although the configuration does not list it."""


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
    """What the generation container builds. All names are names of `plugins`."""

    plugins: Mapping[str, PluginPlan]
    profiles: Sequence[ProfilePlan]
    profile_picker: str
    producers: Sequence[str]
    """In the order they run."""
    sources: Sequence[SourcePlan]
    parsers: Sequence[str]
    """In the order they are asked."""
    discovery: str | None
    notes: Sequence[str] = ()
    """What was added or left out on the configuration's behalf."""
