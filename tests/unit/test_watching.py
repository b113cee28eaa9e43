"""Files that change in all the ways files change: each new content is seen once, and none that is half written."""

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
    """Files under watch, and what they held each time that a change was told."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.seen: list[str | None] = []

    def paths(self) -> Collection[Path]:
        return self.files

    async def follow(self, settle: float) -> None:
        async for _ in file_changes(self.paths, lambda: settle, contents(self.files)):
            self.seen.append(text_of(self.files[0]))

    async def sees(self, *texts: str | None) -> None:
        """Waits for the last of `texts`, and then for a change of another file, so that nothing more can come of it."""
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
    """The watching of `path` and of a file beside it, begun."""
    beside = path.with_name("beside.yaml")
    beside.write_text("beside")
    watch = Watched([path, beside])
    task = asyncio.create_task(watch.follow(settle))
    try:
        await asyncio.sleep(0)  # as far as where it waits
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pointsman.yaml"
    path.write_text("old")
    return path


# -- the ways of a change


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
async def test_a_change_is_told_once(change: Callable[[Path], None], path: Path) -> None:
    async with watched(path) as watch:
        change(path)
        await watch.sees("new")


async def test_a_file_that_is_written_in_two_steps_is_told_once_and_whole(path: Path) -> None:
    async with watched(path, settle=0.4) as watch:
        with path.open("w") as file:
            file.write("half")
            file.flush()
            await asyncio.sleep(0.3)
            file.write(" and half")
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["half and half"]


async def test_a_file_that_is_written_on_and_on_is_waited_for(path: Path) -> None:
    async with watched(path, settle=0.08) as watch:
        with path.open("w") as file:
            for number in range(6):
                file.write(f"{number}")
                file.flush()
                await asyncio.sleep(0.05)
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["012345"]


@pytest.mark.parametrize("empty", [pytest.param(True, id="empty"), pytest.param(False, id="gone")])
async def test_a_file_that_is_about_to_be_written_is_waited_for_longer(empty: bool, path: Path) -> None:
    async with watched(path, settle=0.05) as watch:
        put(path, "" if empty else None)
        await asyncio.sleep(0.2)  # more than a file rests, less than an empty one is waited for
        put(path, "new")
        await until(lambda: len(watch.seen) == 1)
        assert watch.seen == ["new"]


@pytest.mark.parametrize(("text", "seen"), [pytest.param("", "", id="empty"), pytest.param(None, None, id="gone")])
async def test_a_file_that_stays_empty_or_gone_is_told_in_the_end(
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
async def test_what_leaves_the_content_as_it_was_is_not_told(change: Callable[[Path], None], path: Path) -> None:
    async with watched(path) as watch:
        change(path)
        await watch.sees()


# -- links


class ConfigMap:
    """A folder as Kubernetes mounts a ConfigMap: each file a link into `..data`, which is a link that is swapped."""

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


async def test_a_link_that_is_swapped_as_in_a_configmap_is_a_change_each_time(tmp_path: Path) -> None:
    mount = ConfigMap(tmp_path / "mount", pointsman="one", beside="beside")
    async with watched(tmp_path / "mount" / "pointsman.yaml") as watch:
        for number, text in enumerate(("two", "three", "four"), 1):
            mount.swap(pointsman=text, beside="beside")
            await until(lambda number=number: len(watch.seen) == number)
        await watch.sees("two", "three", "four")


async def test_a_configmap_that_is_swapped_for_the_same_is_no_change(tmp_path: Path) -> None:
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


async def test_a_link_that_leads_elsewhere_now_is_followed_there(tmp_path: Path) -> None:
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


# -- which files


async def test_a_file_that_is_not_there_yet_is_told_when_it_comes(tmp_path: Path) -> None:
    async with watched(tmp_path / "pointsman.yaml") as watch:
        put((tmp_path / "pointsman.yaml"), "new")
        await watch.sees("new")


async def test_other_files_are_watched_from_the_change_on_that_names_them(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "plugin.py"
    other.parent.mkdir()
    put(other, "one")
    async with watched(path) as watch:
        put(other, "two")
        put(path, "names it")
        watch.files.append(other)
        await until(lambda: watch.seen == ["names it"])
        put(other, "three")
        await until(lambda: len(watch.seen) == 2)
        assert watch.seen[1] == "names it"


async def test_a_file_that_is_named_no_longer_is_not_watched(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "plugin.py"
    put(other, "one")
    async with watched(path) as watch:
        watch.files.insert(1, other)
        put(path, "names it")
        await until(lambda: len(watch.seen) == 1)
        watch.files.remove(other)
        put(path, "not any more")
        await until(lambda: len(watch.seen) == 2)
        put(other, "two")
        await watch.sees("names it", "not any more")


async def test_what_changes_while_one_change_is_taken_over_is_told_afterwards(path: Path) -> None:
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


async def test_what_changed_before_the_watching_began_is_told(path: Path) -> None:
    known = contents([path])
    put(path, "new")
    changes = file_changes(lambda: [path], lambda: SETTLE, known)
    async with asyncio.timeout(10), aclosing(changes):  # type: ignore[type-var]
        await anext(changes)


# -- where nothing is noticed


async def unnoticed(*_: object, **__: object) -> AsyncIterator[None]:
    """Watching that never notices anything, as on some bind mounts, and looks when the time is up."""
    while True:
        await asyncio.sleep(watching.LOOK_EVERY / 1000)
        yield


async def broken(*_: object, **__: object) -> AsyncIterator[None]:
    raise OSError("OS file watch limit reached")
    yield


@pytest.mark.parametrize("watch", [unnoticed, broken], ids=["a bind mount", "no watches left"])
async def test_files_are_looked_at_where_changes_are_not_noticed(
    watch: object, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 10)
    monkeypatch.setattr(watching, "awatch", watch)
    async with watched(path) as changes:
        put(path, "new")
        await changes.sees("new")


async def test_a_folder_that_is_not_there_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 10)
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


async def test_a_folder_that_is_made_anew_is_watched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 50)
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


async def test_a_path_that_is_no_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "pointsman.yaml"
    path.mkdir()
    async with watched(path) as watch:
        path.rmdir()
        put(path, "new")
        await watch.sees("new")
