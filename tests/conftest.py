"""Fixtures for all tests: time and randomness that tests control."""

from __future__ import annotations

from random import Random

import pytest

from pointsman.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until it is told to go on."""
    return FakeClock()


@pytest.fixture
def random() -> Random:
    """Randomness that is the same in every run."""
    return Random(7)
