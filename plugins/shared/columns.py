"""Facts about endpoints that are computed for many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from plugins.shared.prefix_index import Matches
from pointsman import Column

Compute = Callable[[tuple[str, ...]], Column]
"""Takes endpoint names and returns a number for each."""


class ComputedColumn(Mapping[str, float]):
    """A mapping by endpoint name whose values are computed when they are read."""

    __slots__ = ("_compute", "_names")

    def __init__(self, names: Collection[str], compute: Compute) -> None:
        self._names = names
        self._compute = compute

    def column(self, names: tuple[str, ...], default: float) -> Column:
        """The value for each of `names`."""
        return self._compute(names)

    def __getitem__(self, name: str) -> float:
        if name not in self._names:
            raise KeyError(name)
        return float(self._compute((name,))[0])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def few_of(values: Mapping[str, float], names: tuple[str, ...]) -> Sequence[float]:
    """As `column_of`, in plain Python, which is faster for a few endpoints."""
    if isinstance(values, Matches):
        return values.few(names)
    found: Sequence[float] = column_of(values, names).tolist()
    return found


def column_of(values: Mapping[str, float], names: tuple[str, ...]) -> Column:
    """The value for each of `names`, 0 for missing ones."""
    if hasattr(values, "column"):
        column: Column = values.column(names, 0.0)
        return column
    return np.array([values.get(name, 0.0) for name in names], np.float64)
