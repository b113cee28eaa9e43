"""What a plugin's class can declare, beside its methods. It is read before the plugin is built; all of it is optional.

`params` is always the plugin's validated parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from app.domain.facts import AnyFactKey

FactDeclaration: TypeAlias = Collection[AnyFactKey] | Callable[..., Collection[AnyFactKey]]
"""Fact keys, or a class method that returns them."""


@runtime_checkable
class NeedsFacts(Protocol):
    """Declares the facts that the plugin can't work without."""

    needs: ClassVar[FactDeclaration]
    """Fact keys, or a class method `needs(params)`. If nothing configured produces one of them, the plugin type that
    its key names is added; if there is no such type, the configuration is invalid."""


@runtime_checkable
class WantsFacts(Protocol):
    """Declares the facts that the plugin uses if something produces them."""

    wants: ClassVar[FactDeclaration]
    """Fact keys, or a class method `wants(params)`. No producer is added for them."""


@runtime_checkable
class ProducesFacts(Protocol):
    """Declares the facts that a producer or an extractor publishes."""

    produces: ClassVar[FactDeclaration]
    """Fact keys, or a class method `produces(name, params)`, where `name` is the instance's name. A producer runs
    after the producers of the facts that it needs or wants."""


@runtime_checkable
class SingleProfile(Protocol):
    """Declares that a `ProfilePicker` can't choose among several profiles."""

    single_profile: ClassVar[bool]
    """True makes a configuration with several profiles invalid."""


@runtime_checkable
class RequiresProfiles(Protocol):
    """Declares the profiles that a `ProfilePicker` may ask for by name."""

    @classmethod
    def profile_names(cls, params: Any) -> Sequence[str]:
        """Names of profiles. A configuration that lacks one of them is invalid."""


@runtime_checkable
class KnownEngines(Protocol):
    """Declares the engines whose metrics an `Extractor` can read."""

    @classmethod
    def engines(cls, params: Any) -> Collection[str]:
        """Names that an endpoint's `engine` may have in the configuration, besides `auto`."""
