"""Facts: what producers found out about a request before it is scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class AnyFactKey:
    """Names one kind of fact and the producer instance it comes from.

    Two keys are equal when name and producer are. A producer publishes under its own instance name, so a
    consumer that wants the fact of a renamed producer names it with `of`. `producer` is at first the plugin type
    that produces the fact when nothing configured does.
    """

    name: str
    producer: str
    _hash: int = field(init=False, repr=False)

    def of(self, producer: str | None) -> Self:
        """The same fact from another producer; None or "" keep this one's."""
        return replace(self, producer=producer) if producer else self

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
    """A fact about the request: one value, `default` where no producer set it."""

    default: T


@dataclass(frozen=True, slots=True, eq=False)
class EndpointFactKey(AnyFactKey):
    """A fact about each endpoint: a mapping from endpoint name to a number.

    An endpoint that the mapping lacks counts as `default`. The mapping may be live: it is read when the decision
    is made, so endpoints that came or went while the request waited are treated right. One that is a `Columnar` as
    well is asked for the whole column at once.
    """

    default: float = 0.0


class Columnar(Protocol):
    """A mapping that can give the values of many endpoints faster than one by one."""

    def column(self, names: tuple[str, ...], default: float) -> NDArray[np.float64]:
        """The value of each of `names`, `default` for those that it lacks: a new array without NaN."""


class Facts:
    """An immutable collection of facts by key."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[AnyFactKey, object] | None = None) -> None:
        self._values: Mapping[AnyFactKey, object] = values or {}

    def get(self, key: FactKey[T]) -> T:
        """The request's value under `key`, else the key's default."""
        return cast("T", self._values.get(key, key.default))

    def per_endpoint(self, key: EndpointFactKey) -> Mapping[str, float]:
        """The numbers by endpoint name under `key`; empty when nothing produced it."""
        return cast("Mapping[str, float]", self._values.get(key, NOTHING))

    def and_(self, found: Mapping[AnyFactKey, object]) -> Facts:
        """These facts and `found`, which wins."""
        return Facts({**self._values, **found}) if found else self

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Facts({', '.join(str(key) for key in self._values)})"


NO_FACTS = Facts()
