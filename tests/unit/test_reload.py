"""The steps of a reload: all prepared before any is committed, all abandoned if one can't be, one reload at a time."""

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
from app.reload import NeedsRestartError, Outcome, Reloader, Step
from app.settings.errors import ConfigurationError, Fault, UsageError
from app.settings.tree import Origin
from tests.support.running import until

WARNING = Fault(Origin("a.yaml", 3, 5), "probably not meant", severity="warning")
FAULT = Fault(Origin("a.yaml", 3, 5), "unknown key 'x'")


class Process:
    """A reloader over parts `a`, `b` and `c`, which write down what happens and fail or hang as they are told."""

    def __init__(self, *, file: Path = Path("/nowhere/at/all.yaml"), **troubles: Any) -> None:
        self.happened: list[str] = []
        self.outcomes: list[Outcome] = []
        self.loads = 0
        self.changed = True
        self.file = file
        self._troubles = troubles
        self.reloader = Reloader(
            load=self._load,
            steps=self._steps,
            files=lambda: [self.file],
            settle=lambda: 0.01,
            on_outcome=self.outcomes.append,
        )

    def _load(self) -> tuple[str, Sequence[Fault]]:
        self.loads += 1
        assert threading.current_thread() is not threading.main_thread()
        if "load" in self._troubles:
            raise self._troubles["load"]
        return "loaded", [WARNING]

    def _steps(self, loaded: str) -> Sequence[Step] | None:
        assert loaded == "loaded"
        if "steps" in self._troubles:
            raise self._troubles["steps"]
        return [self._step(name) for name in "abc"] if self.changed else None

    def _step(self, name: str) -> Step:
        return Step(
            name, self._does("prepare", name), self._does("abandon", name),
            lambda: self.happened.append(f"commit {name}"), self._does("retire", name),
        )  # fmt: skip

    def _does(self, what: str, name: str) -> Any:
        async def act() -> None:
            self.happened.append(f"{what} {name}")
            trouble = self._troubles.get(f"{what}_{name}")
            if isinstance(trouble, BaseException):
                raise trouble
            if trouble is not None:
                await trouble.wait()
                self.happened.append(f"{what} {name} done")

        return act


@asynccontextmanager
async def up(process: Process, *, watch: bool = False) -> AsyncIterator[Process]:
    await process.reloader.start(watch=watch)
    try:
        yield process
    finally:
        await process.reloader.stop()


PREPARED = ["prepare a", "prepare b", "prepare c"]
COMMITTED = ["commit a", "commit b", "commit c"]
RETIRED = ["retire c", "retire b", "retire a"]


async def turns(count: int = 20) -> None:
    """Lets everything go on as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_is_prepared_before_anything_is_committed_and_what_was_ends_in_reverse() -> None:
    async with up(Process()) as process:
        outcome = await process.reloader.reload()
        await until(lambda: process.happened[-1] == "retire a")
        assert process.happened == PREPARED + COMMITTED + RETIRED
        assert (outcome.done, outcome.changed, process.outcomes, process.reloader.last) == (
            True,
            True,
            [outcome],
            outcome,
        )


async def test_commits_follow_each_other_without_a_pause() -> None:
    async with up(Process()) as process:
        seen: list[int] = []

        async def look() -> None:
            while len(process.happened) < 6:
                seen.append(sum(what.startswith("commit") for what in process.happened))
                await asyncio.sleep(0)

        await asyncio.gather(process.reloader.reload(), look())
        assert set(seen) == {0}


@pytest.mark.parametrize("error", [LookupError("oh"), SystemExit("oh"), OSError("oh"), DiscoveryError("oh")], ids=repr)
async def test_a_step_that_can_t_be_prepared_abandons_it_and_those_before_it(error: BaseException) -> None:
    async with up(Process(prepare_b=error)) as process:
        outcome = await process.reloader.reload()
        assert process.happened == ["prepare a", "prepare b", "abandon b", "abandon a"]
        assert (outcome.done, outcome.changed, process.outcomes) == (False, False, [outcome])


async def test_a_step_that_can_t_be_abandoned_keeps_no_other_from_it() -> None:
    async with up(Process(prepare_c=LookupError("oh"), abandon_b=LookupError("no"))) as process:
        outcome = await process.reloader.reload()
        assert process.happened[3:] == ["abandon c", "abandon b", "abandon a"]
        assert outcome.reasons == ["LookupError: oh"]


async def test_a_part_whose_past_can_t_be_ended_keeps_no_other_from_it() -> None:
    async with up(Process(retire_c=LookupError("oh"))) as process:
        with capture_logs() as logs:
            outcome = await process.reloader.reload()
            await until(lambda: process.happened[-1] == "retire a")
        assert (outcome.done, process.happened[6:], logs[0]["part"]) == (True, RETIRED, "c")


async def test_nothing_is_done_where_nothing_has_changed() -> None:
    async with up(Process()) as process:
        process.changed = False
        outcome = await process.reloader.reload()
        assert (outcome.done, outcome.changed, process.happened) == (True, False, [])


@pytest.mark.parametrize("when", ["load", "steps", "prepare_a"])
@pytest.mark.parametrize(
    ("error", "reasons", "traceback"),
    [
        pytest.param(ConfigurationError([FAULT, WARNING]), [str(FAULT), str(WARNING)], False, id="faults"),
        pytest.param(UsageError("a.yaml: gone"), ["a.yaml: gone"], False, id="usage"),
        pytest.param(NeedsRestartError(["x", "y.z"]), ["needs restart: x, y.z"], False, id="restart"),
        pytest.param(DiscoveryError("e.yaml: gone"), ["e.yaml: gone"], False, id="discovery"),
        pytest.param(OSError(98, "port taken"), ["[Errno 98] port taken"], False, id="system"),
        pytest.param(LookupError("oh"), ["LookupError: oh"], True, id="anything"),
        pytest.param(SystemExit("oh"), ["SystemExit: oh"], True, id="a module that ends the process"),
    ],
)
async def test_whatever_goes_wrong_is_the_reason_of_a_refusal(
    error: BaseException, reasons: list[str], traceback: bool, when: str
) -> None:
    async with up(Process(**{when: error})) as process:
        with capture_logs() as logs:
            outcome = await process.reloader.reload()
        assert (outcome.done, outcome.changed, outcome.reasons) == (False, False, reasons)
        assert [line["event"] for line in logs] == (["reload failed"] if traceback else [])
        assert not [what for what in process.happened if what.startswith("commit")]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        pytest.param(Outcome(0, done=True, changed=True), "the configuration was taken over", id="taken over"),
        pytest.param(Outcome(0, done=True), "nothing has changed", id="unchanged"),
        pytest.param(
            Outcome(0, done=True, changed=True, warnings=[WARNING]),
            "a.yaml:3:5: warning: probably not meant\nthe configuration was taken over",
            id="with a warning",
        ),
        pytest.param(
            Outcome(0, done=False, reasons=["one", "two"]),
            "the configuration was not taken over; the last good one holds\none\ntwo",
            id="refused",
        ),
    ],
)
def test_an_outcome_is_told_in_lines(outcome: Outcome, text: str) -> None:
    assert str(outcome) == text


async def test_warnings_are_part_of_the_outcome() -> None:
    async with up(Process()) as process:
        assert (await process.reloader.reload()).warnings == [WARNING]


# -- one at a time


async def test_two_reloads_at_once_run_one_after_the_other() -> None:
    go = asyncio.Event()
    async with up(Process(prepare_c=go)) as process:
        both = [asyncio.create_task(process.reloader.reload()) for _ in range(2)]
        await until(lambda: process.happened == PREPARED)
        await turns()
        waits = (process.loads, list(process.happened))
        go.set()
        await asyncio.gather(*both)
        once = [*PREPARED, "prepare c done", *COMMITTED]
        changes = [what for what in process.happened if not what.startswith("retire")]
        assert (waits, changes) == ((1, PREPARED), once + once)


async def test_a_reload_does_not_wait_for_the_end_of_what_was_before() -> None:
    async with up(Process(retire_a=asyncio.Event())) as process:
        outcomes = [await process.reloader.reload() for _ in range(3)]
        assert [outcome.changed for outcome in outcomes] == [True] * 3


async def test_a_reload_goes_on_if_who_asked_for_it_no_longer_waits() -> None:
    go = asyncio.Event()
    async with up(Process(prepare_c=go)) as process:
        asked = asyncio.create_task(process.reloader.reload())
        await until(lambda: process.happened == PREPARED)
        asked.cancel()
        await asyncio.wait([asked])
        go.set()
        await until(lambda: process.outcomes)
        assert process.outcomes[0].changed


async def test_a_reload_may_be_asked_for_without_waiting() -> None:
    async with up(Process()) as process:
        process.reloader.request()
        await until(lambda: process.happened[-3:] == RETIRED)
        assert len(process.outcomes) == 1


# -- start and stop


async def test_a_reload_waits_until_the_process_is_up() -> None:
    process = Process()
    process.reloader.request()
    asked = asyncio.create_task(process.reloader.reload())
    await turns()
    early = (process.loads, asked.done())
    async with up(process):
        await asked
        await until(lambda: len(process.outcomes) == 2)
    assert early == (0, False)


async def test_a_stop_abandons_a_reload_that_is_being_prepared() -> None:
    process = Process(prepare_b=asyncio.Event())
    async with up(process):
        asked = asyncio.create_task(process.reloader.reload())
        await until(lambda: process.happened == ["prepare a", "prepare b"])
    outcome = await asked
    assert process.happened == ["prepare a", "prepare b", "abandon b", "abandon a"]
    assert (outcome.done, outcome.reasons) == (False, ["the process is stopping"])


async def test_a_stop_ends_what_is_being_retired() -> None:
    process = Process(retire_b=asyncio.Event())
    async with up(process):
        await process.reloader.reload()
        await until(lambda: process.happened[-1] == "retire b")
    assert process.happened[6:] == ["retire c", "retire b"]


async def test_after_a_stop_nothing_is_taken_over() -> None:
    process = Process()
    async with up(process):
        pass
    outcome = await process.reloader.reload()
    assert (outcome.done, process.loads, str(outcome).splitlines()[1]) == (False, 0, "the process is stopping")


async def test_a_process_that_never_came_up_can_be_stopped() -> None:
    process = Process()
    asked = asyncio.create_task(process.reloader.reload())
    await turns()
    await process.reloader.stop()
    assert (await asked).reasons == ["the process is stopping"]


@pytest.mark.parametrize("watch", [True, False], ids=["watching", "not watching"])
async def test_no_task_is_left_after_a_stop(watch: bool) -> None:
    before = asyncio.all_tasks()
    async with up(Process(), watch=watch) as process:
        await process.reloader.reload()
    assert asyncio.all_tasks() == before


# -- watching


async def test_a_changed_file_is_taken_over_by_itself(tmp_path: Path) -> None:
    process = Process(file=tmp_path / "a.yaml")
    async with up(process, watch=True):
        process.file.write_text("new")
        await until(lambda: process.outcomes)
        assert (process.outcomes[0].changed, process.loads) == (True, 1)


async def test_what_changed_while_the_process_started_is_taken_over(tmp_path: Path) -> None:
    process = Process(file=tmp_path / "a.yaml")
    process.file.write_text("new")
    async with up(process, watch=True):
        await until(lambda: process.outcomes)
        assert process.outcomes[0].changed


async def test_a_file_that_is_not_watched_loads_nothing(tmp_path: Path) -> None:
    process = Process(file=tmp_path / "a.yaml")
    async with up(process):
        process.file.write_text("new")
        await turns()
        assert process.loads == 0
