"""The wheel and an environment that it is installed in, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wheels import ROOT, build_wheel, install, make_environment


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pointsman's wheel."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with nothing but the wheel and what it needs; leave it as it was."""
    python = make_environment(tmp_path_factory.mktemp("empty"))
    install(python, wheel)
    return python
