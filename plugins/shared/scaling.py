"""How a load column becomes scores."""

from __future__ import annotations

import numpy as np

from pointsman import Column


def least_is_best(load: Column) -> Column:
    """`(max - load) / (max - min)`: 1 for the least loaded, 0 for the most; 1 for all when all are equal."""
    low, high = load.min(), load.max()
    return (high - load) / (high - low) if high > low else np.ones(len(load))
