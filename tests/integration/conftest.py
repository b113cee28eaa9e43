"""Fixtures for tests with a running application."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _logging(logging_as_before: None) -> None:
    """A reload sets logging up anew, for the whole process."""
