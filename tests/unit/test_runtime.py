"""The folder that the process needs while it runs: made when it is asked for, and removed with all that is in it."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from app.runtime import RuntimeDirectory


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def in_(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def test_a_folder_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    directory = RuntimeDirectory()
    assert in_(tmp_path) == []
    assert [directory.path, directory.path] == in_(tmp_path) * 2
    assert directory.path.name.startswith("pointsman-")


def test_nobody_else_sees_what_is_in_it() -> None:
    assert stat.S_IMODE(RuntimeDirectory().path.stat().st_mode) == 0o700


async def test_it_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    directory = RuntimeDirectory()
    (directory.path / "sub").mkdir()
    (directory.path / "sub" / "file").write_text("x")
    await directory.remove()
    await directory.remove()
    assert in_(tmp_path) == []


async def test_one_that_was_never_asked_for_is_not_made_to_be_removed(tmp_path: Path) -> None:
    await RuntimeDirectory().remove()
    assert in_(tmp_path) == []
