"""Facts: what producers determine about a request before it is scheduled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class AnyFactKey:
    """Identifies a kind of fact and the producer instance that provides it.

    Keys are equal if name and producer are equal. A producer publishes under its own instance name; consumers select
    another instance with `of`. The initial `producer` is the plugin type that is added if no configured plugin
    produces the fact.
    """

    name: str
    producer: str
    _others: dict[str, AnyFactKey] = field(default_factory=dict, repr=False, kw_only=True)
    _hash: int = field(init=False, repr=False)

    def of(self, producer: str | None) -> Self:
        """The same fact from another producer; None or "" keep the current one.

        The same object each time, which is found in a dictionary without comparing.
        """
        if not producer or producer == self.producer:
            return self
        if producer not in self._others:
            self._others[producer] = replace(self, producer=producer, _others={})
        return cast("Self", self._others[producer])

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.name, self.producer)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyFactKey) and (self.name, self.producer) == (other.name, other.producer)

    def __str__(self) -> str:
        return f"{self.name}/{self.producer}"


@dataclass(frozen=True, slots=True, eq=False)
class FactKey(AnyFactKey, Generic[T]):
    """A fact about the request: one value, `default` if no producer set it."""

    default: T


@dataclass(frozen=True, slots=True, eq=False)
class EndpointFactKey(AnyFactKey):
    """A fact about each endpoint: a mapping from endpoint name to a number.

    An endpoint missing from the mapping has the value `default`. The mapping may be live: it is read when the decision
    is made, so it may reflect endpoints that were added or removed in the meantime. A mapping that is `Columnar` is
    read one column at a time.
    """

    default: float = 0.0


class Columnar(Protocol):
    """A mapping that can look up the values of many endpoints at once."""

    def column(self, names: tuple[str, ...], default: float) -> NDArray[np.float64]:
        """A new array with the value for each of `names`, `default` for missing ones. It has no NaN."""


class Facts:
    """An immutable mapping of facts."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[AnyFactKey, object] | None = None) -> None:
        self._values: Mapping[AnyFactKey, object] = values or {}

    def get(self, key: FactKey[T]) -> T:
        """The value under `key`, or the default of the key."""
        return cast("T", self._values.get(key, key.default))

    def per_endpoint(self, key: EndpointFactKey) -> Mapping[str, float]:
        """The numbers under `key` by endpoint name; empty if there are none."""
        return cast("Mapping[str, float]", self._values.get(key, NOTHING))

    def and_(self, found: Mapping[AnyFactKey, object]) -> Facts:
        """These facts updated with `found`."""
        return Facts({**self._values, **found}) if found else self

    def values(self) -> Iterable[object]:
        """All facts, in the order in which they were found."""
        return self._values.values()

    def growing(self) -> GrowingFacts:
        """A copy to which facts can be added while they are gathered."""
        return GrowingFacts(dict(self._values))

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Facts({', '.join(str(key) for key in self._values)})"


class GrowingFacts(Facts):
    """Facts that are being gathered: immutable for all but those who gather them."""

    __slots__ = ()

    _values: dict[AnyFactKey, object]

    def add(self, found: Mapping[AnyFactKey, object]) -> None:
        """Adds `found`, in place: a copy of the request for every producer would cost as much as most producers."""
        self._values.update(found)


NO_FACTS = Facts()
