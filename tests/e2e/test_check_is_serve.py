"""`pointsman check` and a `pointsman serve` process say the same of every configuration of the corpus."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.__main__ import main
from tests.config.test_corpus import BAD, GOOD, furnish
from tests.support.processes import pointsman

AT_ONCE = 3
"""Processes; more only wait for a processor."""
PORTS = ["--port", "0", "--admin-port", "0"]
LOUD = ["--set", "observability.logging.format=json", "--set", "observability.logging.level=info"]
"""So that the line that says that it has started is logged."""

Ending = tuple[int, Sequence[str]]
"""Exit code, and the lines that are faults."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes keep their modules, compiled by the first of them and not by each."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(compiled))
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # it would take half of the time
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)


def checked(paths: Sequence[Path], more: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Mapping[str, Ending]:
    """What `check` says."""
    found = {}
    for path in paths:
        code = main(["check", "-c", str(path), *more])
        found[path.stem] = (code, [line.rstrip() for line in capsys.readouterr().err.splitlines()])
    return found


async def served(paths: Sequence[Path], more: Sequence[str]) -> Mapping[str, Ending]:
    """What `serve` says; one that starts gets SIGTERM and is to end in peace."""
    few = asyncio.Semaphore(AT_ONCE)

    async def serve(path: Path) -> Ending:
        async with few, pointsman("serve", "-c", str(path), *more) as process:
            try:
                await process.says('"started"')
            except AssertionError:
                code = await process.ends()
            else:
                process.process.send_signal(signal.SIGTERM)
                code = await process.ends()
        return code, [line for line in process.lines if not line.startswith("{")]

    endings = await asyncio.gather(*map(serve, paths))
    return {path.stem: ending for path, ending in zip(paths, endings, strict=True)}


def differing(one: Mapping[str, Ending], other: Mapping[str, Ending]) -> Mapping[str, tuple[Ending, Ending]]:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


async def test_what_check_refuses_serve_refuses_with_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    endings = await served(BAD, [])
    assert not differing(checked(BAD, [], capsys), endings)
    assert {name for name, (code, _) in endings.items() if code != 1} == set()


async def test_what_check_accepts_serve_runs_with_the_same_warnings_and_ends_in_peace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    endings = await served(GOOD, [*PORTS, *LOUD])
    sets = ["--set", "transports.http.port=0", "--set", "transports.admin.port=0", *LOUD]
    assert not differing(checked(GOOD, sets, capsys), endings)
    assert {name for name, (code, _) in endings.items() if code != 0} == set()
