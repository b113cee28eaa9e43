"""Fixtures for all tests: time and randomness that tests control, logging that they leave as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random

import pytest
import structlog

from pointsman.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until it is told to go on."""
    return FakeClock()


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """Takes back what a test sets up of the process-wide logging, as a reload does."""
    root, servers = logging.getLogger(), logging.getLogger("aiohttp.server")
    level, handlers, servers_level = root.level, list(root.handlers), servers.level
    yield
    structlog.reset_defaults()
    servers.setLevel(servers_level)
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def random() -> Random:
    """Randomness that is the same in every run."""
    return Random(7)
