"""Watching files: each new content is noticed once, however it is written, and never when it is half written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from app import watching
from app.watching import contents, file_changes
from tests.support.running import until

SETTLE = 0.02


class Watched:
    """Watched files, and what the first of them contained at each change."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.seen: list[str | None] = []

    def paths(self) -> Collection[Path]:
        return self.files

    async def follow(self, settle: float) -> None:
        async for found in file_changes(self.paths, lambda: settle, contents(self.files)):
            assert set(found) == set(self.files)
            data = found[self.files[0]]
            self.seen.append(None if data is None else data.decode())

    async def sees(self, *texts: str | None) -> None:
        """Waits for the last of `texts`, and then for a change of another file, so that no earlier change is still to come."""
        await until(lambda: len(self.seen) >= len(texts))
        other = self.files[-1]
        if other is not self.files[0]:
            other.write_text(f"{text_of(other)}.")
            await until(lambda: len(self.seen) >= len(texts) + 1)
        assert self.seen[: len(texts)] == list(texts)
        assert len(self.seen) == len(texts) + (other is not self.files[0])


def text_of(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def put(path: Path, text: str | None) -> None:
    """Writes `text`, or removes the file."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


@asynccontextmanager
async def watched(path: Path, *, settle: float = SETTLE) -> AsyncIterator[Watched]:
    """Watches `path` and a file beside it."""
    beside = path.with_name("beside.yaml")
    beside.write_text("beside")
    watch = Watched([path, beside])
    task = asyncio.create_task(watch.follow(settle))
    try:
        await asyncio.sleep(0)  # until it waits
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pointsman.yaml"
    path.write_text("old")
    return path


# -- ways to change a file


def rename_over(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("new")
    new.rename(path)


def write(path: Path) -> None:
    path.write_text("new")


def delete_and_create(path: Path) -> None:
    path.unlink()
    path.write_text("new")


def link(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_text("new")
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("change", [rename_over, write, delete_and_create, link], ids=lambda change: change.__name__)
async def test_a_change_is_noticed_once(change: Callable[[Path], None], path: Path) -> None:
    async with watched(path) as watch:
        change(path)
        await watch.sees("new")


async def test_a_file_that_is_written_in_two_steps_is_noticed_once_and_complete(path: Path) -> None:
    async with watched(path, settle=0.4) as watch:
        with path.open("w") as file:
            file.write("half")
            file.flush()
            await asyncio.sleep(0.3)
            file.write(" and half")
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["half and half"]


async def test_a_file_that_is_still_being_written_is_waited_for(path: Path) -> None:
    async with watched(path, settle=0.08) as watch:
        with path.open("w") as file:
            for number in range(6):
                file.write(f"{number}")
                file.flush()
                await asyncio.sleep(0.05)
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["012345"]


@pytest.mark.parametrize("empty", [pytest.param(True, id="empty"), pytest.param(False, id="missing")])
async def test_an_empty_or_missing_file_is_waited_for_longer(empty: bool, path: Path) -> None:
    async with watched(path, settle=0.05) as watch:
        put(path, "" if empty else None)
        await asyncio.sleep(0.2)  # longer than a file must stay the same, shorter than an empty one must
        put(path, "new")
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["new"]


@pytest.mark.parametrize(("text", "seen"), [pytest.param("", "", id="empty"), pytest.param(None, None, id="missing")])
async def test_a_file_that_stays_empty_or_missing_is_noticed_in_the_end(
    text: str | None, seen: str | None, path: Path
) -> None:
    async with watched(path) as watch:
        put(path, text)
        await watch.sees(seen)


def touch(path: Path) -> None:
    path.touch()


def same_again(path: Path) -> None:
    path.write_text("old")


def renamed_over_by_the_same(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text("old")
    new.rename(path)


def another_mode(path: Path) -> None:
    path.chmod(0o600)


def a_neighbour(path: Path) -> None:
    path.with_name("neighbour.yaml").write_text("new")


def there_and_back(path: Path) -> None:
    path.write_text("new")
    path.write_text("old")


@pytest.mark.parametrize(
    "change",
    [touch, same_again, renamed_over_by_the_same, another_mode, a_neighbour, there_and_back],
    ids=lambda change: change.__name__,
)
async def test_what_leaves_the_contents_unchanged_is_not_noticed(change: Callable[[Path], None], path: Path) -> None:
    async with watched(path) as watch:
        change(path)
        await watch.sees()


# -- links


class ConfigMap:
    """A folder as Kubernetes mounts a ConfigMap: each file is a link into `..data`, a link that is swapped."""

    def __init__(self, folder: Path, **texts: str) -> None:
        self.folder = folder
        self._versions = 0
        folder.mkdir()
        self.swap(**texts)
        for name in texts:
            (folder / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")

    def swap(self, **texts: str) -> None:
        """As the kubelet does: a new folder, the link renamed over the old one, the old folder removed."""
        self._versions += 1
        data, old = self.folder / "..data", self.folder / f"..{self._versions - 1}"
        new = self.folder / f"..{self._versions}"
        new.mkdir()
        for name, text in texts.items():
            (new / f"{name}.yaml").write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(data)
        for file in old.glob("*"):
            file.unlink()
        if old.exists():
            old.rmdir()


async def test_each_swap_of_a_configmap_is_noticed(tmp_path: Path) -> None:
    mount = ConfigMap(tmp_path / "mount", pointsman="one", beside="beside")
    async with watched(tmp_path / "mount" / "pointsman.yaml") as watch:
        for number, text in enumerate(("two", "three", "four"), 1):
            mount.swap(pointsman=text, beside="beside")
            await until(lambda number=number: len(watch.seen) == number)
        await watch.sees("two", "three", "four")


async def test_a_configmap_that_is_swapped_for_an_equal_one_is_unchanged(tmp_path: Path) -> None:
    mount = ConfigMap(tmp_path / "mount", pointsman="one", beside="beside")
    async with watched(tmp_path / "mount" / "pointsman.yaml") as watch:
        mount.swap(pointsman="one", beside="beside")
        mount.swap(pointsman="two", beside="beside")
        await watch.sees("two")


async def test_a_link_to_a_file_elsewhere_is_followed(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    put((there / "real.yaml"), "old")
    path = tmp_path / "pointsman.yaml"
    path.symlink_to(there / "real.yaml")
    async with watched(path) as watch:
        put((there / "real.yaml"), "new")
        await watch.sees("new")


async def test_a_link_that_now_leads_elsewhere_is_followed_there(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        put((tmp_path / name / "real.yaml"), name)
    path = tmp_path / "pointsman.yaml"
    path.symlink_to(tmp_path / "a" / "real.yaml")
    async with watched(path) as watch:
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "b" / "real.yaml")
        link.rename(path)
        await until(lambda: watch.seen == ["b"])
        put((tmp_path / "b" / "real.yaml"), "c")
        await watch.sees("b", "c")


# -- how much of a file


async def test_only_the_bytes_within_the_limit_are_compared(path: Path) -> None:
    other = path.with_name("other.yaml")
    put(other, "one")
    changes = file_changes(lambda: [path, other], lambda: SETTLE, limit=3)
    async with asyncio.timeout(10), aclosing(changes):
        change = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        put(path, "old, and more")
        await asyncio.sleep(0.3)
        early = change.done()
        put(other, "two, and more")
        assert (early, await change) == (False, {path: b"old", other: b"two"})


@pytest.mark.parametrize(
    ("limit", "found"),
    [(-1, b"old"), (3, b"old"), (100, b"old"), (2, b"ol")],
    ids=["all", "as long", "longer", "shorter"],
)
def test_contents_are_read_up_to_the_limit(limit: int, found: bytes, path: Path) -> None:
    missing = path.with_name("missing.yaml")
    assert contents([path, missing], limit) == {path: found, missing: None}


# -- which files


async def test_a_missing_file_is_noticed_when_it_is_created(tmp_path: Path) -> None:
    async with watched(tmp_path / "pointsman.yaml") as watch:
        put((tmp_path / "pointsman.yaml"), "new")
        await watch.sees("new")


async def test_added_files_are_watched_after_the_change_that_adds_them(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "plugin.py"
    other.parent.mkdir()
    put(other, "one")
    async with watched(path) as watch:
        put(other, "two")
        put(path, "lists it")
        watch.files.append(other)
        await until(lambda: watch.seen == ["lists it"])
        put(other, "three")
        await until(lambda: len(watch.seen) == 2)
        assert watch.seen[1] == "lists it"


async def test_a_file_that_is_no_longer_listed_is_not_watched(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "plugin.py"
    put(other, "one")
    async with watched(path) as watch:
        watch.files.insert(1, other)
        put(path, "lists it")
        await until(lambda: len(watch.seen) == 1)
        watch.files.remove(other)
        put(path, "no longer lists it")
        await until(lambda: len(watch.seen) == 2)
        put(other, "two")
        await watch.sees("lists it", "no longer lists it")


async def test_a_change_during_the_handling_of_another_one_is_noticed_afterwards(path: Path) -> None:
    seen: list[str | None] = []

    async def follow() -> None:
        async for _ in file_changes(lambda: [path], lambda: SETTLE, contents([path])):
            seen.append(text_of(path))
            if seen[-1] == "one":
                put(path, "two")

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    put(path, "one")
    await until(lambda: seen == ["one", "two"])
    task.cancel()
    await asyncio.wait([task])


async def test_a_change_before_the_watching_began_is_noticed(path: Path) -> None:
    known = contents([path])
    put(path, "new")
    changes = file_changes(lambda: [path], lambda: SETTLE, known)
    async with asyncio.timeout(10), aclosing(changes):
        assert await anext(changes) == {path: b"new"}


# -- without events


async def without_events(*_: object, **__: object) -> AsyncIterator[None]:
    """A watcher that never reports an event, as on some bind mounts, only that time is up."""
    while True:
        await asyncio.sleep(watching.POLL_EVERY / 1000)
        yield


async def broken(*_: object, **__: object) -> AsyncIterator[None]:
    raise OSError("OS file watch limit reached")
    yield


@pytest.mark.parametrize("watch", [without_events, broken], ids=["a bind mount", "no watches left"])
async def test_without_events_files_are_polled(watch: object, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_EVERY", 10)
    monkeypatch.setattr(watching, "awatch", watch)
    async with watched(path) as changes:
        put(path, "new")
        await changes.sees("new")


async def test_a_missing_folder_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_EVERY", 10)
    path = tmp_path / "later" / "pointsman.yaml"
    watch = Watched([path])
    task = asyncio.create_task(watch.follow(SETTLE))
    await asyncio.sleep(0)
    path.parent.mkdir()
    put(path, "new")
    await until(lambda: watch.seen == ["new"])
    put(path, "newer")
    await until(lambda: watch.seen == ["new", "newer"])
    task.cancel()
    await asyncio.wait([task])


async def test_a_folder_that_is_created_again_is_watched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "POLL_EVERY", 50)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "pointsman.yaml"
    put(path, "old")
    watch = Watched([path])
    task = asyncio.create_task(watch.follow(SETTLE))
    await asyncio.sleep(0)
    put(path, None)
    folder.rmdir()
    await until(lambda: watch.seen == [None])
    folder.mkdir()
    put(path, "new")
    await until(lambda: watch.seen == [None, "new"])
    task.cancel()
    await asyncio.wait([task])


async def test_a_path_that_is_no_file_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "pointsman.yaml"
    path.mkdir()
    async with watched(path) as watch:
        path.rmdir()
        put(path, "new")
        await watch.sees("new")
