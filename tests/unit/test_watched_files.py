"""Files that change: noticed however they are replaced, and only once they rest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.watching import file_changes
from tests.support.running import until

SETTLE = 0.15


class Watched:
    """What a watcher of one file saw at each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[str | None] = []

    async def watch(self) -> None:
        async for _ in file_changes(lambda: [self.path], lambda: SETTLE):
            self.seen.append(self.path.read_text() if self.path.exists() else None)


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[Watched]:
    watched = Watched(path)
    task = asyncio.create_task(watched.watch())
    await asyncio.sleep(0.3)  # the watcher of the system has no way to say that it looks
    try:
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_file_that_is_written_anew_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    async with watching(path) as watched:
        path.write_text("two")
        await until(lambda: watched.seen == ["two"])


async def test_a_file_that_another_is_renamed_over_is_a_change(tmp_path: Path) -> None:
    path, new = tmp_path / "a.yaml", tmp_path / ".a.yaml.new"
    path.write_text("one")
    async with watching(path) as watched:
        new.write_text("two")
        new.replace(path)
        await until(lambda: watched.seen == ["two"])


async def test_a_file_that_is_truncated_and_written_in_steps_is_one_change(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    async with watching(path) as watched:
        with path.open("w") as file:
            file.flush()
            await asyncio.sleep(2 * SETTLE)
            file.write("tw")
            file.flush()
            await asyncio.sleep(SETTLE / 5)
            file.write("o")
        await until(lambda: watched.seen == ["two"])
        path.write_text("three")
        await until(lambda: watched.seen == ["two", "three"])


async def test_a_file_that_is_deleted_and_made_again_is_one_change(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    async with watching(path) as watched:
        path.unlink()
        await asyncio.sleep(SETTLE)
        path.write_text("two")
        await until(lambda: watched.seen == ["two"])


async def test_links_that_are_swapped_as_those_of_a_config_map_are_a_change(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(version)
    data, path = tmp_path / "..data", tmp_path / "a.yaml"
    data.symlink_to("..one")
    path.symlink_to(Path("..data", "a.yaml"))
    async with watching(path) as watched:
        (tmp_path / "..new").symlink_to("..two")
        (tmp_path / "..new").rename(data)
        await until(lambda: watched.seen == ["two"])
        (tmp_path / "..two" / "a.yaml").write_text("three")
        await until(lambda: watched.seen == ["two", "three"])


async def test_a_file_that_is_only_touched_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    async with watching(path) as watched:
        os.utime(path, (1, 1))
        path.write_text("one")
        await asyncio.sleep(3 * SETTLE)
        path.write_text("two")
        await until(lambda: watched.seen)
        assert watched.seen == ["two"]


async def test_a_file_that_stays_away_is_a_change_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    async with watching(path) as watched:
        path.unlink()
        await until(lambda: watched.seen == [None])


async def test_files_that_come_later_are_watched_as_well(tmp_path: Path) -> None:
    one, two = tmp_path / "one" / "a.yaml", tmp_path / "two" / "b.yaml"
    for path in (one, two):
        path.parent.mkdir()
        path.write_text("1")
    paths, seen = [one], []

    async def watch() -> None:
        async for _ in file_changes(lambda: paths, lambda: SETTLE):
            paths[:] = [one, two]
            seen.append(two.read_text())

    task = asyncio.create_task(watch())
    await asyncio.sleep(0.3)
    one.write_text("2")
    await until(lambda: seen == ["1"])
    await asyncio.sleep(0.3)
    two.write_text("2")
    await until(lambda: seen == ["1", "2"])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
