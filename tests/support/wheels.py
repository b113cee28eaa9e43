"""Wheels, and environments with nothing else in them; no network is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELHOUSE = ROOT / ".wheelhouse"


def build_wheel(project: Path, folder: Path) -> Path:
    """The wheel of `project`, in `folder`."""
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([sys.executable, *build, "--wheel-dir", folder, project], check=True)
    (built,) = folder.glob("*.whl")
    return built


def make_environment(folder: Path) -> Path:
    """The Python of a new environment with nothing but pip."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def install(python: Path, wheel: Path) -> None:
    """Installs `wheel` and what it needs, out of the wheelhouse."""
    if not WHEELHOUSE.exists():
        pytest.fail("there is no wheelhouse: run the tests by `make test`, which fills it")
    options = ["--quiet", "--no-index", "--find-links", WHEELHOUSE]
    subprocess.run([python, "-m", "pip", "install", *options, wheel], check=True)


def uninstall(python: Path, package: str) -> None:
    """Takes `package` out again."""
    subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", package], check=True)
