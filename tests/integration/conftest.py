"""Logging as it was: a reload sets it up anew for the whole process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Takes back what a test's reloads have set up."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    servers = logging.getLogger("aiohttp.server")
    servers_level = servers.level
    yield
    structlog.reset_defaults()
    servers.setLevel(servers_level)
    root.setLevel(level)
    root.handlers[:] = handlers
