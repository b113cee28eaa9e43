"""Builds wheels and installs them in empty environments, without network access."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELHOUSE = ROOT / ".wheelhouse"


def build_wheel(project: Path, folder: Path) -> Path:
    """Builds the wheel of `project` in `folder`; returns its path."""
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([sys.executable, *build, "--wheel-dir", folder, project], check=True)
    (built,) = folder.glob("*.whl")
    return built


def make_environment(folder: Path) -> Path:
    """Creates an environment with nothing but pip; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, wheel: Path) -> None:
    """Installs `wheel` and its dependencies from the wheelhouse."""
    if not WHEELHOUSE.exists():
        pytest.fail("there is no wheelhouse: run the tests with `make test`, which fills it")
    options = ["--quiet", "--no-index", "--find-links", WHEELHOUSE]
    subprocess.run([python, "-m", "pip", "install", *options, wheel], check=True)


def uninstall(python: Path, package: str) -> None:
    """Uninstalls `package`."""
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", package], check=True)
