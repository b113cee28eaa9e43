"""`pointsman check` and a `pointsman serve` process say the same of every configuration of the corpus."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from app.__main__ import main
from tests.config.test_corpus import BAD, GOOD, furnish

ROOT = Path(__file__).parents[2]
FORKING = str(ROOT / "tests" / "support" / "forking.py")
AT_ONCE = 3
"""Processes; more only wait for a processor."""
PORTS = ["--port", "0", "--admin-port", "0"]
LOUD = ["--set", "observability.logging.format=json", "--set", "observability.logging.level=info"]
"""So that the line that says that it has started is logged."""

Ending = tuple[int, Sequence[str]]
"""Exit code, and the lines that are faults."""


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def served(paths: Sequence[Path], more: Sequence[str], folder: Path) -> Mapping[str, Ending]:
    """What `serve` says; one that starts gets SIGTERM and is to end in peace.

    Each is a process of its own, forked from one that has imported everything: that is most of a start's time.
    """
    left, endings = list(paths), {}

    async def some() -> None:
        forks = await asyncio.create_subprocess_exec(
            sys.executable, FORKING, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        while left:
            path = left.pop()
            endings[path.stem] = await one(forks, path, more, folder / f"{path.stem}.out")
        assert forks.stdin is not None
        forks.stdin.close()
        assert await forks.wait() == 0

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return endings


def said(output: Path) -> str:
    return output.read_text() if output.exists() else ""


async def one(forks: asyncio.subprocess.Process, path: Path, more: Sequence[str], output: Path) -> Ending:
    assert forks.stdin is not None
    assert forks.stdout is not None
    command = {"arguments": ["serve", "-c", str(path), *more], "output": str(output)}
    forks.stdin.write(json.dumps(command).encode() + b"\n")
    number = json.loads(await forks.stdout.readline())
    ended = asyncio.ensure_future(forks.stdout.readline())
    async with asyncio.timeout(60):
        while not ended.done() and '"started"' not in said(output):
            await asyncio.sleep(0.01)
        if not ended.done():
            os.kill(number, signal.SIGTERM)
        code = json.loads(await ended)[1]
    return code, [line.rstrip() for line in said(output).splitlines() if not line.startswith("{")]


def differing(one: Mapping[str, Ending], other: Mapping[str, Ending]) -> Mapping[str, tuple[Ending, Ending]]:
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


@pytest.mark.slow
async def test_what_check_refuses_serve_refuses_with_the_same_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = await served(BAD, [], tmp_path)
    assert not differing(checked(BAD, [], capsys), endings)
    assert {name for name, (code, _) in endings.items() if code != 1} == set()


@pytest.mark.slow
async def test_what_check_accepts_serve_runs_with_the_same_warnings_and_ends_in_peace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = await served(GOOD, [*PORTS, *LOUD], tmp_path)
    sets = ["--set", "transports.http.port=0", "--set", "transports.admin.port=0", *LOUD]
    assert not differing(checked(GOOD, sets, capsys), endings)
    assert {name for name, (code, _) in endings.items() if code != 0} == set()
