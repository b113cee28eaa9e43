"""How a load column becomes scores."""

from __future__ import annotations

import numpy as np

from pointsman import Column


class LeastIsBest:
    """`(max - load) / (max - min)`: 1 for the least loaded, 0 for the most; 1 for all when all are equal.

    Columns are immutable, and many requests meet the same one: the scores of the last are kept.
    """

    __slots__ = ("_column", "_scores")

    def __init__(self) -> None:
        self._column: Column | None = None
        self._scores: Column = np.zeros(0)

    def __call__(self, load: Column) -> Column:
        """One score per number of `load`."""
        if load is not self._column:
            low, high = load.min(), load.max()
            self._scores = (high - load) / (high - low) if high > low else np.ones(len(load))
            self._column = load
        return self._scores
