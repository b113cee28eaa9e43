"""Endpoints files on disk: all errors at once, and only complete versions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from app import endpoints_files
from app.endpoints_files import LocalEndpointsFiles
from app.extension import DiscoveryError
from tests.support.running import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def listing(*names: str) -> str:
    return "endpoints:\n" + "".join(f"- {{name: {name}, address: 10.0.0.1, port: 8000}}\n" for name in names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "endpoints.yaml"
    path.write_text(listing("a"))
    return path


@asynccontextmanager
async def followed(path: Path) -> AsyncIterator[list[list[str] | str]]:
    """The names in each version of the file so far, or its error."""
    seen: list[list[str] | str] = []

    async def follow() -> None:
        versions = LocalEndpointsFiles().versions(path, lambda error: seen.append(str(error)))
        async for endpoints in versions:
            names = [endpoint.name for endpoint in endpoints]
            seen.append(names)

    task = asyncio.create_task(follow())
    try:
        await until(lambda: seen == [["a"]])
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_all_errors_are_reported_with_their_places(path: Path) -> None:
    path.write_text("endpoints:\n- {name: a, address: h, port: 0}\n- {name: b, address: h, port: 1, weight: 2}\n")
    with pytest.raises(DiscoveryError) as caught:
        LocalEndpointsFiles().read(path)
    assert str(caught.value) == (
        f"{path}:2:25: endpoints[0].port: expected a number from 1 to 65535, found 0; "
        f"{path}:3:34: endpoints[1].weight: unknown key 'weight'; "
        "known: address, labels, metricsPort, name, namespace, port"
    )


async def test_a_version_that_is_written_in_steps_is_read_once_it_is_complete(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints_files, "SETTLE", 0.4)
    async with followed(path) as seen:
        with path.open("w") as file:
            for name in "bcd":
                file.write(listing(name) if name == "b" else listing(name).partition("\n")[2])
                file.flush()
                await asyncio.sleep(0.2)
        await until(lambda: len(seen) == 2)
        assert seen == [["a"], ["b", "c", "d"]]


async def test_a_missing_file_is_invalid_until_it_is_back(path: Path) -> None:
    async with followed(path) as seen:
        path.unlink()
        await until(lambda: len(seen) == 2)
        path.write_text(listing("b"))
        await until(lambda: len(seen) == 3)
        assert seen == [["a"], f"{path}: No such file or directory", ["b"]]


async def test_a_file_that_grows_over_the_limit_is_invalid(path: Path) -> None:
    async with followed(path) as seen:
        path.write_text("#" * (endpoints_files.SIZE_LIMIT + 1))
        await until(lambda: len(seen) == 2)
        assert seen[1] == f"{path}: larger than {endpoints_files.SIZE_LIMIT} bytes"


async def test_an_invalid_first_version_is_raised(path: Path) -> None:
    path.unlink()
    with pytest.raises(DiscoveryError, match="No such file"):
        await anext(LocalEndpointsFiles().versions(path, lambda _: None))
