"""Generations: each is started whole before it becomes current, and ends after its last request."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.domain.named import Named
from app.extension import DiscoveryError
from app.generation import Generation, Generations, Services
from app.routing.pipeline import OpenRoutes
from tests.support.running import until


class Fakes:
    """A generation of parts that record what happens to them.

    `troubles`, such as `start a`, are exceptions to raise or events to wait for.
    """

    def __init__(self, world: World, name: str, troubles: Mapping[str, Any]) -> None:
        self.name = name
        self.routes = OpenRoutes()
        self._world = world
        self._troubles = troubles
        self.generation = Generation(
            plugins=[Named(plugin, FakePlugin(self, plugin)) for plugin in "ab"],
            open_routes=self.routes,
            discovery=FakeDiscovery(self),  # type: ignore[arg-type]
            monitor=FakeMonitor(self),  # type: ignore[arg-type]
            services=services(name),
            listeners=[FakeListener(self, "http"), FakeListener(self, "grpc")],
            admin_listener=FakeListener(self, "admin"),
            registries=FakeRegistries(self),
            shutdown=Shutdown(delay=float(name), timeout=2 * float(name)),
            on_reload=[lambda: self.record("on reload")],
        )

    @property
    def happened(self) -> list[str]:
        """What happened to this generation."""
        return [what for name, what in self._world.happened if name == self.name]

    @property
    def is_current(self) -> bool:
        return self._world.generations.current is self.generation

    def record(self, what: str) -> None:
        self._world.record(self.name, what)
        trouble = self._troubles.get(what)
        if isinstance(trouble, BaseException):
            raise trouble

    async def act(self, what: str) -> None:
        self.record(what)
        trouble = self._troubles.get(what)
        if isinstance(trouble, asyncio.Event):
            await trouble.wait()


@dataclass(frozen=True)
class Shutdown:
    """Times that differ between generations."""

    delay: float
    timeout: float


class FakePlugin:
    def __init__(self, fakes: Fakes, name: str) -> None:
        self._fakes, self._name = fakes, name

    def inherit_from(self, predecessor: FakePlugin) -> None:
        self._fakes.record(f"inherit {self._name} from {predecessor._fakes.name}")

    async def start(self) -> None:
        await self._fakes.act(f"start {self._name}")

    async def stop(self) -> None:
        await self._fakes.act(f"stop {self._name}")


class FakeDiscovery:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    async def start(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._fakes.act("discover" if timeout is None else f"discover within {timeout:g} s")

    def publish(self) -> None:
        self._fakes.record("publish endpoints")

    def unpublish(self) -> None:
        self._fakes.record("unpublish endpoints")

    async def stop(self) -> None:
        await self._fakes.act("stop discovery")


class FakeMonitor:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    def start(self) -> None:
        self._fakes.record("watch")

    async def initial_scrape(self, timeout: float) -> None:  # noqa: ASYNC109
        await self._fakes.act(f"scrape within {timeout:g} s")

    async def stop(self) -> None:
        await self._fakes.act("stop watching")


class FakeListener:
    def __init__(self, fakes: Fakes, name: str) -> None:
        self._fakes, self._name = fakes, name

    async def bind(self) -> None:
        await self._fakes.act(f"bind {self._name}")

    async def serve(self) -> None:
        await self._fakes.act(f"serve {self._name}")

    async def abandon(self) -> None:
        await self._fakes.act(f"abandon {self._name}")


class FakeRegistries:
    def __init__(self, fakes: Fakes) -> None:
        self._fakes = fakes

    def publish(self, unchanged: Collection[str]) -> None:
        self._fakes.record(f"publish metrics, unchanged: {' '.join(unchanged) or 'none'}")

    def end(self) -> None:
        self._fakes.record("end metrics")


def services(name: str) -> Services:
    """What the process asks a generation for; each says whose it is."""
    pool: Any = SimpleNamespace(is_fresh=lambda status: (name, status))
    parts: dict[str, Any] = {part: f"{part} {name}" for part in ("http", "ext_proc", "admin")}
    return Services(pool=pool, pool_name=name, **parts)


class World:
    """Generations `1`, `2`, … and what happened to them, in order."""

    def __init__(self) -> None:
        self.generations = Generations()
        self.happened: list[tuple[str, str]] = []
        self.current_at: list[str] = []
        """The current generation's name at each thing that happened."""
        self._count = 0

    def make(self, troubles: Mapping[str, Any] | None = None) -> Fakes:
        self._count += 1
        return Fakes(self, f"{self._count}", troubles or {})

    def record(self, name: str, what: str) -> None:
        self.happened.append((name, what))
        self.current_at.append(self.generations.pool_name())

    async def start(self, troubles: Mapping[str, Any] | None = None) -> Fakes:
        """Makes the first generation and starts it as a process does; that is no longer in `happened`."""
        first = self.make(troubles)
        self.generations.begin(first.generation)
        await self.generations.serve_admin()
        await self.generations.start()
        await self.generations.serve()
        self.forget()
        return first

    async def replace(self, troubles: Mapping[str, Any] | None = None, unchanged: Sequence[str] = ()) -> Fakes:
        following = self.make(troubles)
        await self.generations.replace(following.generation, unchanged)
        return following

    def forget(self) -> None:
        self.happened.clear()
        self.current_at.clear()

    def index(self, name: str, what: str) -> int:
        return self.happened.index((name, what))


async def turns(count: int = 20) -> None:
    """Lets everything go on as far as it can."""
    for _ in range(count):
        await asyncio.sleep(0)


PREPARED = [
    "inherit a from 1", "inherit b from 1", "start a", "start b", "discover within 10 s", "bind http", "bind grpc",
]  # fmt: skip
ACTIVATED = ["publish metrics, unchanged: none", "publish endpoints", "watch", "on reload"]
SERVED = ["serve http", "serve grpc"]
NO_LONGER_WATCHING = ["unpublish endpoints", "stop discovery", "stop watching"]
ENDED = ["stop b", "stop a", "end metrics"]


# -- the first generation


async def test_the_first_generation_starts_in_order() -> None:
    world = World()
    first = world.make()
    world.generations.begin(first.generation)
    await world.generations.serve_admin()
    await world.generations.start()
    await world.generations.serve()
    assert first.happened == [
        "bind admin", "serve admin",
        "start a", "start b", "discover",
        "publish metrics, unchanged: none", "publish endpoints", "watch", "scrape within 2 s",
        "bind http", "bind grpc", "serve http", "serve grpc",
    ]  # fmt: skip


async def test_a_stop_ends_the_current_generation() -> None:
    world = World()
    first = await world.start()
    await world.generations.stop()
    assert first.happened == ["stop watching", "stop discovery", *ENDED]


@pytest.mark.parametrize(
    ("step", "stopped"),
    [("start a", ["stop a"]), ("start b", ["stop b", "stop a"]), ("discover", ["stop b", "stop a"])],
)
async def test_if_the_first_generation_can_t_start_a_stop_ends_what_was_started(step: str, stopped: list[str]) -> None:
    world = World()
    with pytest.raises(DiscoveryError, match="no such file"):
        await world.start({step: DiscoveryError("no such file")})
    world.forget()
    await world.generations.stop()
    assert [what for _, what in world.happened if what in ENDED] == [*stopped, "end metrics"]


# -- the next one


async def test_a_generation_is_started_and_bound_before_it_is_activated_and_served() -> None:
    world = World()
    await world.start()
    following = await world.replace()
    assert following.happened == PREPARED + ACTIVATED + SERVED


async def test_the_previous_generation_ends_after_it_was_replaced() -> None:
    world = World()
    first = await world.start()
    await world.replace()
    await turns()
    assert first.happened == NO_LONGER_WATCHING + ENDED
    assert world.index("1", "unpublish endpoints") < world.index("2", "publish endpoints")
    assert world.index("2", "watch") < world.index("1", "stop watching")


async def test_requests_meet_the_new_generation_once_it_is_bound_and_before_it_is_served() -> None:
    world = World()
    await world.start()
    await world.replace()
    begin = world.index("1", "unpublish endpoints")
    assert world.current_at == ["1"] * begin + ["2"] * (len(world.happened) - begin)
    assert world.happened[begin - 1] == ("2", "bind grpc")


async def test_metrics_of_unchanged_plugins_continue() -> None:
    world = World()
    await world.start()
    following = await world.replace(unchanged=["b"])
    assert "publish metrics, unchanged: b" in following.happened


@pytest.mark.parametrize("name", ["1", "2"])
async def test_the_current_generation_says_what_is_served(name: str) -> None:
    world = World()
    await world.start()
    if name == "2":
        await world.replace()
    of, status = world.generations, object()
    assert (of.http(), of.ext_proc(), of.admin()) == (f"http {name}", f"ext_proc {name}", f"admin {name}")
    assert (of.pool_name(), of.is_fresh(status)) == (name, (name, status))  # type: ignore[arg-type]
    assert (of.shutdown(), of.drain_delay()) == (Shutdown(float(name), 2 * float(name)), float(name))


@pytest.mark.parametrize("step", ["serve http", "serve grpc"])
async def test_if_it_can_t_be_served_it_is_current_all_the_same_and_that_is_logged(step: str) -> None:
    world = World()
    first = await world.start()
    with capture_logs() as logs:
        following = await world.replace({step: OSError("oh")})
        await turns()
    assert (following.is_current, first.happened) == (True, NO_LONGER_WATCHING + ENDED)
    assert [(line["event"], line["error"]) for line in logs] == [("could not accept connections", "oh")]


# -- one that can't be used

STEPS = [
    pytest.param("inherit b from 1", [], id="inherit"),
    pytest.param("start a", ["stop a"], id="first plugin"),
    pytest.param("start b", ["stop b", "stop a"], id="second plugin"),
    pytest.param("discover within 10 s", ["stop b", "stop a"], id="discovery"),
    pytest.param("bind http", ["stop b", "stop a"], id="first listener"),
    pytest.param("bind grpc", ["stop b", "stop a"], id="second listener"),
]
ABANDONED = ["abandon http", "abandon grpc", "stop discovery"]


@pytest.mark.parametrize("error", [LookupError("oh"), OSError("port taken"), SystemExit("oh")], ids=repr)
@pytest.mark.parametrize(("step", "stopped"), STEPS)
async def test_if_a_step_fails_everything_is_undone_and_nothing_has_changed(
    step: str, stopped: list[str], error: BaseException
) -> None:
    world = World()
    first = await world.start()
    following = world.make({step: error})
    with pytest.raises(type(error)) as caught:
        await world.generations.replace(following.generation)
    await turns()
    assert caught.value is error
    assert following.happened == [*PREPARED[: PREPARED.index(step) + 1], *ABANDONED, *stopped]
    assert (first.happened, first.is_current) == ([], True)


@pytest.mark.parametrize(("step", "stopped"), STEPS[1:])
async def test_if_it_is_cancelled_everything_is_undone_and_nothing_has_changed(step: str, stopped: list[str]) -> None:
    world = World()
    first = await world.start()
    following = world.make({step: asyncio.Event()})
    replacing = asyncio.create_task(world.generations.replace(following.generation))
    await until(lambda: step in following.happened)
    replacing.cancel()
    await asyncio.wait([replacing])
    assert (replacing.cancelled(), first.happened, first.is_current) == (True, [], True)
    assert following.happened == [*PREPARED[: PREPARED.index(step) + 1], *ABANDONED, *stopped]


@pytest.mark.parametrize("cancel", [True, False], ids=["cancelled", "failed"])
async def test_what_can_t_be_undone_does_not_keep_the_rest_from_it(cancel: bool) -> None:
    world = World()
    await world.start()
    following = world.make(
        {
            "bind http": asyncio.Event() if cancel else LookupError("port taken"),
            "abandon http": LookupError("oh"),
            "stop b": LookupError("oh"),
        }
    )
    replacing = asyncio.create_task(world.generations.replace(following.generation))
    await until(lambda: "bind http" in following.happened)
    if cancel:
        replacing.cancel()
    await asyncio.wait([replacing])
    assert following.happened[-5:] == [*ABANDONED, "stop b", "stop a"]
    assert replacing.cancelled() if cancel else str(replacing.exception()) == "port taken"


async def test_after_a_failed_reload_the_next_one_inherits_from_the_current_generation() -> None:
    world = World()
    await world.start()
    with pytest.raises(LookupError):
        await world.replace({"start b": LookupError("oh")})
    third = await world.replace()
    assert (third.happened, third.is_current) == (PREPARED + ACTIVATED + SERVED, True)


# -- requests that run on


async def test_requests_keep_the_plugins_of_their_generation_alive() -> None:
    world = World()
    first = await world.start()
    for _ in range(2):
        first.routes.enter()
    await world.replace()
    seen = []
    for _ in range(2):
        await turns()
        seen.append(first.happened)
        first.routes.leave()
    await turns()
    assert seen == [NO_LONGER_WATCHING] * 2
    assert first.happened == NO_LONGER_WATCHING + ENDED


async def test_each_previous_generation_ends_with_its_own_last_request() -> None:
    world = World()
    generations = [await world.start(), await world.replace(), await world.replace()]
    for one in generations:
        one.routes.enter()
    await turns()
    world.forget()
    generations[1].routes.leave()
    await turns()
    assert world.happened == [("2", what) for what in ENDED]
    generations[2].routes.leave()
    generations[0].routes.leave()
    await turns()
    assert world.happened[3:] == [("1", what) for what in ENDED]


async def test_a_reload_does_not_wait_for_requests_of_the_previous_generation() -> None:
    world = World()
    first = await world.start()
    first.routes.enter()
    for _ in range(3):
        await world.replace()
    assert world.generations.pool_name() == "4"
    await world.generations.stop()


async def test_a_plugin_that_can_t_be_stopped_does_not_keep_the_others_from_stopping() -> None:
    world = World()
    first = await world.start({"stop b": LookupError("oh")})
    with capture_logs() as logs:
        await world.replace()
        await turns()
    assert first.happened == NO_LONGER_WATCHING + ENDED
    assert [line["component"] for line in logs] == ["b"]


@pytest.mark.parametrize("step", ["stop discovery", "stop watching", "end metrics"])
async def test_a_failure_to_end_the_previous_generation_is_logged(step: str) -> None:
    world = World()
    await world.start({step: LookupError("oh")})
    with capture_logs() as logs:
        await world.replace()
        await turns()
    assert [(line["event"], line["error"]) for line in logs] == [
        ("could not stop the previous configuration", "LookupError: oh")
    ]
    assert (await world.replace()).is_current


# -- stopping while previous generations still end


@pytest.mark.parametrize("step", ["", "a request", "stop discovery", "stop watching", "stop b"])
async def test_a_stop_ends_all_generations_at_once(step: str) -> None:
    world, before = World(), asyncio.all_tasks()
    first = await world.start({step: hang_once()})
    if step == "a request":
        first.routes.enter()
    following = await world.replace()
    if step:
        await turns()
    async with asyncio.timeout(5):
        await world.generations.stop()
    stopped = [what for what in first.happened if what in ENDED]
    assert (stopped, following.happened[-3:]) == (ENDED, ENDED)
    assert world.index("1", "end metrics") < world.index("2", "stop watching")
    assert asyncio.all_tasks() == before


def hang_once() -> asyncio.Event:
    """An event for which only the first caller waits."""

    class Once(asyncio.Event):
        async def wait(self) -> Any:
            if not self.is_set():
                self.set()
                await asyncio.Event().wait()

    return Once()


async def test_a_generation_that_has_ended_is_not_stopped_again() -> None:
    world = World()
    first = await world.start()
    await world.replace()
    await turns()
    world.forget()
    await world.generations.stop()
    assert first.happened == []


@settings(max_examples=60, deadline=None)
@given(st.data())
async def test_plugins_run_as_long_as_requests_need_them_and_are_stopped_once(data: st.DataObject) -> None:
    world = World()
    made = [await world.start()]
    requests: list[Fakes] = []
    for action in data.draw(st.lists(st.sampled_from(["request", "end", "reload", "fail", "turn"]), max_size=12)):
        if action == "request":
            requests.append(next(one for one in made if one.is_current))
            requests[-1].routes.enter()
        elif action == "end" and requests:
            requests.pop(data.draw(st.integers(0, len(requests) - 1))).routes.leave()
        elif action == "reload":
            made.append(await world.replace())
        elif action == "fail":
            step = data.draw(st.sampled_from(["start b", "discover within 10 s", "bind grpc"]))
            made.append(world.make({step: LookupError("oh")}))
            with pytest.raises(LookupError):
                await world.generations.replace(made[-1].generation)
        else:
            await turns()
        running = {one.name for one in made if one.is_current} | {one.name for one in requests}
        assert not [name for name, what in world.happened if name in running and what in ENDED]
    await world.generations.stop()
    for one in made:
        assert [what for what in one.happened if what in ("stop a", "stop b")] == ["stop b", "stop a"]
