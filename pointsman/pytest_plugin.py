"""pytest fixtures for projects that test their own configuration and plugins; installed with Pointsman.

@pytest.fixture
def pointsman_config():
    return ["builtin:default", "deploy/pointsman.yaml"]

def test_my_scorer_is_shared(pointsman_container):
    generation = pointsman_container.generation()
    generation.plugins.providers["my-scorer"].override(...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from containers.application import ApplicationContainer


@pytest.fixture
def pointsman_config() -> Sequence[str]:
    """The configuration files under test, weakest first. Override it with your own."""
    return ["builtin:default"]


@pytest.fixture
def pointsman_container(pointsman_config: Sequence[str]) -> ApplicationContainer:
    """A fresh container of `pointsman_config`, nothing in it built yet, with a clock and randomness that tests control.

    Raises `ConfigurationError` when the configuration has errors. The environment is not a layer here.
    """
    from random import Random  # noqa: PLC0415 - loaded only by tests that use it

    from app.settings.layers import Sources  # noqa: PLC0415
    from containers.assembly import check  # noqa: PLC0415
    from pointsman.testing import FakeClock  # noqa: PLC0415

    return check(Sources(tuple(pointsman_config))).container(clock=FakeClock(), random=Random(7))
