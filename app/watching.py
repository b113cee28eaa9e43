"""Notices when files changed, however they are replaced, and waits until whoever writes them is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import awatch

log = structlog.get_logger("pointsman.reload")

STEP = 100
"""Milliseconds between two looks at what was noticed."""

LOOK_EVERY = 5000
"""Milliseconds after which files are looked at even if no change was noticed, as on some bind mounts."""

PATIENCE = 10
"""How many times longer is waited while a file is empty or gone: somebody is about to write it."""

Contents = Mapping[Path, bytes | None]


async def file_changes(
    paths: Callable[[], Collection[Path]], settle: Callable[[], float], known: Contents | None = None
) -> AsyncIterator[None]:
    """Yields after each change of what the files `paths` hold, once that has stayed for `settle` seconds.

    `known` is what they held so far, None for what they hold now. A file that is renamed over, written in steps,
    removed and made again, or behind a symbolic link that is swapped is a changed file; one that is touched is not.
    """
    known = contents(paths()) if known is None else known
    while True:
        folders = _folders(paths())
        async with aclosing(_looks(folders)) as looks:
            async for _ in looks:
                while contents(paths()) != known:
                    now = await _settled(paths, settle())
                    if now != known:
                        known = now
                        yield
                        known = {path: known[path] if path in known else _read(path) for path in paths()}
                if _folders(paths()) != folders:
                    break


async def _looks(folders: Collection[Path]) -> AsyncGenerator[None]:
    """A moment to look: the beginning, something happened in the folders, or it has been a while."""
    yield
    if folders:
        try:
            async for _ in awatch(*folders, recursive=False, step=STEP, rust_timeout=LOOK_EVERY, yield_on_timeout=True):
                yield
        except Exception as error:  # noqa: BLE001 - such as the system's bound on watches; whatever it is, looking helps
            log.warning("files can't be watched, so they are looked at", seconds=LOOK_EVERY / 1000, reason=str(error))
    while True:
        await asyncio.sleep(LOOK_EVERY / 1000)
        yield


async def _settled(paths: Callable[[], Collection[Path]], settle: float) -> Contents:
    now, waited = contents(paths()), 0
    while True:
        await asyncio.sleep(settle)
        waited += 1
        again = contents(paths())
        if again != now:
            now, waited = again, 0
        elif all(now.values()) or waited >= PATIENCE:
            return now


def contents(paths: Collection[Path]) -> Contents:
    """What the files hold, None for one that can't be read."""
    return {path: _read(path) for path in paths}


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _folders(paths: Collection[Path]) -> frozenset[Path]:
    """Where the files are and where their links lead, as far as that exists."""
    folders = {folder for path in paths for folder in (path.parent, path.resolve().parent)}
    return frozenset(folder for folder in folders if folder.is_dir())
