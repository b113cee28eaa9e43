"""Converts columns of metrics to scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pointsman import Column


class Cached:
    """A function of a column that caches its last result, as a read-only array.

    Columns are immutable, and many requests share one.
    """

    __slots__ = ("_column", "_function", "_result")

    def __init__(self, function: Callable[[Column], Column]) -> None:
        self._function = function
        self._column: Column | None = None
        self._result: Column = np.zeros(0)

    def __call__(self, column: Column) -> Column:
        """The function's result for `column`."""
        if column is not self._column:
            self._result = self._function(column)
            self._result.flags.writeable = False
            self._column = column
        return self._result


class LowestIsBest(Cached):
    """`(max - load) / (max - min)`: 1 for the lowest load, 0 for the highest; 1 for all when all are equal."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_lowest_is_best)


def _lowest_is_best(load: Column) -> Column:
    low, high = load.min(), load.max()
    return (high - load) / (high - low) if high > low else np.ones(len(load))
