"""pytest fixtures for projects that test their own configuration and plugins; installed with Pointsman.

@pytest.fixture
def pointsman_config():
    return ["builtin:default", "deploy/pointsman.yaml"]

def test_my_scorer_is_used(pointsman_container):
    with pointsman_container.plugins["my-scorer"].override(FakeScorer()):
        ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from containers.generation import GenerationContainer


@pytest.fixture
def pointsman_config() -> Sequence[str]:
    """The configuration files under test, weakest first. Override it with your own."""
    return ["builtin:default"]


@pytest.fixture
def pointsman_container(pointsman_config: Sequence[str]) -> GenerationContainer:
    """A fresh container of `pointsman_config`, with nothing built yet, and a clock and randomness that tests control.

    Raises `ConfigurationError` when the configuration has errors. The environment is not a layer here.
    """
    from random import Random  # noqa: PLC0415 - loaded only by tests that use it

    from app.settings.layers import Sources  # noqa: PLC0415
    from containers.application import Application, load  # noqa: PLC0415
    from pointsman.testing import FakeClock  # noqa: PLC0415

    checked = load(Sources(tuple(pointsman_config)))
    return Application(checked, clock=FakeClock(), random=Random(7)).generation
