"""The reloader: one reload at a time, each with a result, and a configuration that can't be used changes nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.extension import DiscoveryError
from app.reload import NeedsRestartError, Reloader, ReloadResult, Watching
from app.settings.errors import ConfigurationError, Fault, UsageError
from app.settings.tree import Origin
from tests.support.running import until

WARNING = Fault(Origin("a.yaml", 3, 5), "probably not meant", severity="warning")
FAULT = Fault(Origin("a.yaml", 3, 5), "unknown key 'x'")
STOPPING = ["the process is stopping"]


class Process:
    """A reloader that loads the text of a file.

    `load` and `apply` are exceptions to raise; `apply` may also be an event to wait for.
    """

    def __init__(self, file: Path = Path("/does/not/exist.yaml"), *, watch: bool = False, **troubles: Any) -> None:
        self.file = file
        self.watch = watch
        self.troubles = troubles
        self.changed = True
        self.loads = 0
        self.applied: list[str] = []
        self.begun: list[str] = []
        self.results: list[ReloadResult] = []
        self.reloader = Reloader(
            load=self._load, apply=self._apply, watching=self._watching, on_result=self.results.append
        )

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def _load(self) -> tuple[str, Sequence[Fault]]:
        self.loads += 1
        assert threading.current_thread() is not threading.main_thread()
        if "load" in self.troubles:
            raise self.troubles["load"]
        return self.file.read_text() if self.file.exists() else "no file", [WARNING]

    async def _apply(self, loaded: str) -> bool:
        self.begun.append(loaded)
        trouble = self.troubles.get("apply")
        if isinstance(trouble, BaseException):
            raise trouble
        if trouble is not None:
            await trouble.wait()
        self.applied.append(loaded)
        return self.changed

    def _watching(self) -> Watching:
        return Watching(self.watch, [self.file], settle=0.01)


@asynccontextmanager
async def started(process: Process) -> AsyncIterator[Process]:
    await process.reloader.start()
    try:
        yield process
    finally:
        await process.reloader.stop()


async def turns(count: int = 20) -> None:
    """Lets everything go on as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- results


@pytest.mark.parametrize("changed", [True, False])
async def test_what_was_loaded_is_applied(changed: bool) -> None:
    async with started(Process()) as process:
        process.changed = changed
        result = await process.reloader.reload()
        assert (result.done, result.changed, result.reasons) == (True, changed, ())
        assert (process.applied, process.results, process.reloader.last) == (["no file"], [result], result)


async def test_before_the_first_reload_there_is_no_last_result() -> None:
    async with started(Process()) as process:
        assert process.reloader.last is None


@pytest.mark.parametrize("when", ["load", "apply"])
@pytest.mark.parametrize(
    ("error", "reasons", "traceback"),
    [
        pytest.param(ConfigurationError([FAULT, WARNING]), [str(FAULT), str(WARNING)], False, id="faults"),
        pytest.param(UsageError("a.yaml: gone"), ["a.yaml: gone"], False, id="usage"),
        pytest.param(NeedsRestartError(["x", "y.z"]), ["needs restart: x, y.z"], False, id="restart"),
        pytest.param(DiscoveryError("e.yaml: gone"), ["e.yaml: gone"], False, id="discovery"),
        pytest.param(OSError(98, "port taken"), ["[Errno 98] port taken"], False, id="system"),
        pytest.param(LookupError("oh"), ["LookupError: oh"], True, id="any other error"),
        pytest.param(SystemExit("oh"), ["SystemExit: oh"], True, id="a module that exits"),
    ],
)
async def test_any_error_is_the_reason_of_a_failed_reload(
    error: BaseException, reasons: list[str], traceback: bool, when: str
) -> None:
    async with started(Process(**{when: error})) as process:
        with capture_logs() as logs:
            result = await process.reloader.reload()
        assert (result.done, result.changed, result.reasons) == (False, False, reasons)
        assert (process.results, process.reloader.last, process.applied) == ([result], result, [])
        assert [line["event"] for line in logs] == (["reload failed"] if traceback else [])


async def test_a_failed_reload_does_not_keep_the_next_one_from_working() -> None:
    async with started(Process(load=UsageError("gone"))) as process:
        await process.reloader.reload()
        process.troubles.clear()
        await process.reloader.reload()
        assert [result.done for result in process.results] == [False, True]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(ReloadResult(0, done=True, changed=True), "the configuration was applied", id="applied"),
        pytest.param(ReloadResult(0, done=True), "nothing has changed", id="unchanged"),
        pytest.param(
            ReloadResult(0, done=True, changed=True, warnings=[WARNING]),
            "a.yaml:3:5: warning: probably not meant\nthe configuration was applied",
            id="with a warning",
        ),
        pytest.param(
            ReloadResult(0, done=False, reasons=["one", "two"]),
            "the configuration was not applied; the last good one stays in effect\none\ntwo",
            id="failed",
        ),
    ],
)
def test_a_result_as_text(result: ReloadResult, text: str) -> None:
    assert str(result) == text


@pytest.mark.parametrize(
    ("troubles", "report"),
    [
        pytest.param({}, (f"{WARNING}\nthe configuration was applied\n", True), id="applied"),
        pytest.param(
            {"load": UsageError("a.yaml: gone")},
            ("the configuration was not applied; the last good one stays in effect\na.yaml: gone\n", False),
            id="failed",
        ),
    ],
)
async def test_a_report_is_the_result_as_text(troubles: dict[str, Any], report: tuple[str, bool]) -> None:
    async with started(Process(**troubles)) as process:
        assert await process.reloader.report() == report


async def test_warnings_are_part_of_the_result() -> None:
    async with started(Process()) as process:
        assert (await process.reloader.reload()).warnings == [WARNING]


# -- one at a time


async def test_two_reloads_at_once_run_one_after_the_other() -> None:
    go = asyncio.Event()
    async with started(Process(apply=go)) as process:
        both = [asyncio.create_task(process.reloader.reload()) for _ in range(2)]
        await until(lambda: process.begun)
        await turns()
        while_first_runs = (process.loads, len(process.begun))
        go.set()
        results = await asyncio.gather(*both)
        assert (while_first_runs, process.loads, process.results) == ((1, 1), 2, results)


async def test_a_reload_goes_on_if_its_caller_is_cancelled() -> None:
    go = asyncio.Event()
    async with started(Process(apply=go)) as process:
        caller = asyncio.create_task(process.reloader.reload())
        await until(lambda: process.begun)
        caller.cancel()
        await asyncio.wait([caller])
        go.set()
        await until(lambda: process.results)
        assert (caller.cancelled(), process.results[0].changed) == (True, True)


async def test_a_reload_may_be_requested_without_waiting_for_it() -> None:
    async with started(Process()) as process:
        process.reloader.request()
        await until(lambda: process.results)
        assert process.applied == ["no file"]


# -- start and stop


async def test_a_reload_waits_until_the_process_has_started() -> None:
    process = Process()
    process.reloader.request()
    caller = asyncio.create_task(process.reloader.reload())
    await turns()
    early = (process.loads, caller.done())
    async with started(process):
        await caller
        await until(lambda: len(process.results) == 2)
    assert early == (0, False)


async def test_a_stop_cancels_a_running_reload() -> None:
    process = Process(apply=asyncio.Event())
    async with started(process):
        caller = asyncio.create_task(process.reloader.reload())
        await until(lambda: process.begun)
    result = await caller
    assert (process.applied, result.done, result.reasons) == ([], False, STOPPING)


async def test_after_a_stop_nothing_is_loaded() -> None:
    process = Process()
    async with started(process):
        pass
    result = await process.reloader.reload()
    assert (process.loads, result.done, result.reasons) == (0, False, STOPPING)


async def test_a_process_that_never_started_can_be_stopped() -> None:
    process = Process()
    caller = asyncio.create_task(process.reloader.reload())
    await turns()
    await process.reloader.stop()
    assert (await caller).reasons == STOPPING


@pytest.mark.parametrize("watch", [True, False], ids=["watching", "not watching"])
async def test_no_task_is_left_after_a_stop(watch: bool) -> None:
    before = asyncio.all_tasks()
    async with started(Process(watch=watch)) as process:
        await process.reloader.reload()
        process.reloader.request()
    assert asyncio.all_tasks() == before


# -- watching


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.yaml"


async def test_a_changed_file_is_reloaded(file: Path) -> None:
    async with started(Process(file, watch=True)) as process:
        for count, text in enumerate(("one", "two"), 1):
            process.write(text)
            await until(lambda count=count: len(process.results) == count)
        assert process.applied == ["one", "two"]


async def test_a_file_that_changed_while_the_process_started_is_reloaded(file: Path) -> None:
    process = Process(file, watch=True)
    process.write("new")
    async with started(process):
        await until(lambda: process.applied == ["new"])


async def test_a_file_that_could_not_be_loaded_is_reloaded_when_it_changes_again(file: Path) -> None:
    async with started(Process(file, watch=True, load=UsageError("bad"))) as process:
        process.write("bad")
        await until(lambda: process.results)
        process.troubles.clear()
        process.write("good")
        await until(lambda: process.applied == ["good"])
        assert [result.done for result in process.results] == [False, True]


async def test_files_that_a_reload_adds_are_watched(file: Path, tmp_path: Path) -> None:
    async with started(Process(file, watch=True)) as process:
        process.write("one")
        await until(lambda: process.results)
        process.file = tmp_path / "b.yaml"
        await process.reloader.reload()
        process.write("two")
        await until(lambda: process.applied[-1] == "two")


UNNOTICED = 0.3
"""Seconds in which a watched file would have been reloaded."""


@pytest.mark.parametrize("watch", [True, False], ids=["switched off", "off from the start"])
async def test_files_that_are_not_watched_are_not_reloaded(watch: bool, file: Path) -> None:
    async with started(Process(file, watch=watch)) as process:
        await turns()
        process.watch = False
        await process.reloader.reload()
        process.write("new")
        await asyncio.sleep(UNNOTICED)
        assert (process.loads, process.applied) == (1, ["no file"])


async def test_watching_begins_with_the_reload_that_switches_it_on(file: Path) -> None:
    async with started(Process(file)) as process:
        await process.reloader.reload()
        process.write("before")
        process.watch = True
        await process.reloader.reload()
        await asyncio.sleep(UNNOTICED)
        at_rest = list(process.applied)
        process.write("after")
        await until(lambda: len(process.results) > len(at_rest))
        assert (at_rest, process.applied[2:]) == (["no file", "before"], ["after"])


async def test_watching_may_be_switched_off_and_on_again(file: Path) -> None:
    async with started(Process(file, watch=True)) as process:
        await turns()
        process.watch = False
        await process.reloader.reload()
        process.write("unnoticed")
        await asyncio.sleep(UNNOTICED)
        while_off = list(process.applied)
        process.watch = True
        await process.reloader.reload()
        process.write("noticed")
        await until(lambda: process.applied[-1] == "noticed")
        assert while_off == ["no file"]
