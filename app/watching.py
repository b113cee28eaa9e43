"""Watches files for changes, however they are replaced, and waits until they are completely written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import awatch

log = structlog.get_logger("pointsman.watching")

STEP = 100
"""Milliseconds between two checks for file system events."""

POLL_EVERY = 5000
"""Milliseconds after which the files are read even without an event: some bind mounts don't report changes."""

MISSING_FACTOR = 10
"""A file that is empty or missing must stay so for this many times longer, since it is probably about to be written."""

Contents = Mapping[Path, bytes | None]
"""The contents of files, None for a file that can't be read."""


async def file_changes(
    paths: Callable[[], Collection[Path]],
    settle: Callable[[], float],
    known: Contents | None = None,
    *,
    limit: int = -1,
) -> AsyncGenerator[Contents]:
    """Yields the contents of the files `paths` after each change, once they have been the same for `settle` seconds.

    The first change is the first difference from `known`, or from the current contents if that is None. At most
    `limit` bytes of each file are compared, -1 for all. Renamed, rewritten and recreated files are noticed, and
    symbolic links that lead elsewhere; a file with the same contents is unchanged.
    """
    known = contents(paths(), limit) if known is None else known
    while True:
        folders = _folders(paths())
        async with aclosing(_checks(folders)) as checks:
            async for _ in checks:
                while contents(paths(), limit) != known:
                    now = await _settled(paths, settle(), limit)
                    if now != known:
                        known = now
                        yield known
                        known = {path: known[path] if path in known else _read(path, limit) for path in paths()}
                if _folders(paths()) != folders:
                    break


async def _checks(folders: Collection[Path]) -> AsyncGenerator[None]:
    """Yields when the files should be checked: at once, after each event in the folders, and regularly."""
    yield
    if folders:
        try:
            async for _ in awatch(*folders, recursive=False, step=STEP, rust_timeout=POLL_EVERY, yield_on_timeout=True):
                yield
        except Exception as error:  # noqa: BLE001 - such as the system's limit on watches; polling still works
            log.warning("can't watch files, polling them instead", seconds=POLL_EVERY / 1000, reason=str(error))
    while True:
        await asyncio.sleep(POLL_EVERY / 1000)
        yield


async def _settled(paths: Callable[[], Collection[Path]], settle: float, limit: int) -> Contents:
    now, waited = contents(paths(), limit), 0
    while True:
        await asyncio.sleep(settle)
        waited += 1
        again = contents(paths(), limit)
        if again != now:
            now, waited = again, 0
        elif all(now.values()) or waited >= MISSING_FACTOR:
            return now


def contents(paths: Collection[Path], limit: int = -1) -> Contents:
    """The contents of the files, at most `limit` bytes of each; -1 for all."""
    return {path: _read(path, limit) for path in paths}


def _read(path: Path, limit: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return None


def _folders(paths: Collection[Path]) -> frozenset[Path]:
    """The existing folders of the files, and of the files that they link to."""
    folders = {folder for path in paths for folder in (path.parent, path.resolve().parent)}
    return frozenset(folder for folder in folders if folder.is_dir())
