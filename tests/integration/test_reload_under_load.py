"""Fifty reloads while clients send request after request: none fails, and nothing of the past is left."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from dependency_injector.containers import DynamicContainer
from prometheus_client import CollectorRegistry

from app.observability.logging import set_up_logging
from app.planning.plan import PluginPlan
from app.routing.pipeline import Pipeline
from app.scheduling.profile import Profile
from app.scheduling.scheduler import Scheduler
from app.settings.schema import Settings
from tests.support.engines import fake_engine
from tests.support.reloads import TELLING, Finding, Reloadable, Telling, endpoints, reloadable
from tests.support.running import until

RELOADS = 50
CLIENTS = 4


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Only errors are logged, and nothing has been told yet."""
    set_up_logging(format="console", level="error")
    Telling.diary.clear()


async def stream(request: web.Request) -> web.StreamResponse:
    """An answer in pieces, so that many of them go on across a reload."""
    await request.read()
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(4):
        await response.write(f"data: {number}\n\n".encode())
        await asyncio.sleep(0.002)
    return response


WHOLE = "".join(f"data: {number}\n\n" for number in range(4))


def version(number: int, *ports: int) -> str:
    """The configuration of one reload: another weight, other plugins in turn, an endpoint that comes and goes."""
    names = ["odd" if number % 2 else "even", "kept"]
    plugins = "".join(
        f"  - {{name: {name}, type: '{TELLING}', parameters: {{note: '{'' if name == 'kept' else number}'}}}}\n"
        for name in names
    )
    used = ", ".join(f"{{pluginRef: {name}}}" for name in names)
    profile = f"{{name: default, plugins: [{{pluginRef: expected-ttft-scorer, weight: {number + 1}}}, {used}]}}"
    return f"{endpoints(*ports[: 2 + number % 2])}plugins:\n{plugins}schedulingProfiles: [{profile}]\n"


class Load:
    """Clients that send one request after the other."""

    def __init__(self, url: Callable[[], str]) -> None:
        self.results: Counter[str] = Counter()
        self._url = url
        self._done = False
        self._clients = [asyncio.create_task(self._client(number)) for number in range(CLIENTS)]

    async def _client(self, number: int) -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
            while not self._done:
                await self._send(client, f"client {number}, request {self.results.total()}")

    async def _send(self, client: aiohttp.ClientSession, content: str) -> None:
        body = {"model": "demo", "messages": [{"role": "user", "content": content}]}
        try:
            async with client.post(f"{self._url()}/v1/chat/completions", json=body) as answer:
                text = await answer.text()
                self.results[str(answer.status) if text == WHOLE else f"{answer.status} {text}"] += 1
        except aiohttp.ClientError as error:
            self.results[repr(error)] += 1

    async def more(self, count: int) -> None:
        """Waits for as many answers more."""
        wanted = self.results.total() + count
        await until(lambda: self.results.total() >= wanted)

    async def stop(self) -> None:
        """Returns when all answers are there."""
        self._done = True
        await asyncio.gather(*self._clients)


@asynccontextmanager
async def load_on(app: Reloadable, url: str = "") -> AsyncIterator[Load]:
    """Clients that send as long as the block is; each has one connection, and goes where the router listens now."""
    load = Load(lambda: url or app.url)
    try:
        yield load
    finally:
        await load.stop()


def counted(app: Reloadable) -> Counter[str]:
    """Objects of which each generation has its own, tasks, and open files and sockets.

    Connections to engines that are kept for later do not count: they have two ends here, and a task that serves them.
    """
    gc.collect()
    everything = (app.process.host_pools(), app.process.http_client()._pools)
    idle = sum(len(pool.connections) for pools in everything for pool in pools._pools.values())
    files = len(list(Path("/proc/self/fd").iterdir()))
    found = Counter(tasks=len(asyncio.all_tasks()) - idle, files=files - 2 * idle)
    for thing in gc.get_objects():
        if type(thing) in (Pipeline, Scheduler, Profile, Telling, Finding, PluginPlan, Settings, CollectorRegistry):
            found[type(thing).__name__] += 1
        elif type(thing) is DynamicContainer and "profile_picker" in thing.providers:
            found["generations"] += 1
    return found


class Past:
    """Weak references to what each reload replaces."""

    def __init__(self) -> None:
        self._replaced: list[tuple[str, weakref.ref[Any]]] = []

    def add(self, app: Reloadable) -> None:
        """What requests meet now, and will not after the next reload."""
        generation, pipeline = app.generation, app.generation.router().pipeline
        dropped = [app.plugin(name) for name in ("even", "odd") if name in generation.plugins.providers]
        for thing in (generation, generation.generation(), pipeline.scheduler, *dropped):
            self._replaced.append((type(thing).__name__, weakref.ref(thing)))

    def alive(self) -> list[str]:
        """What is still there of it."""
        gc.collect()
        return [name for name, thing in self._replaced if thing() is not None]


async def reloads(app: Reloadable, load: Load, ports: list[int], count: int) -> Past:
    """As many reloads, with requests between each two of them; `count` is even, so that all is as it was in the end."""
    past = Past()
    for number in range(1, count + 1):
        past.add(app)
        await app.takes_over(version(number, *ports))
        await load.more(3)
    return past


@pytest.mark.slow
async def test_fifty_reloads_fail_no_request_and_leave_nothing_behind(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ports = [(await stack.enter_async_context(fake_engine(stream))).port for _ in range(3)]
        app = await stack.enter_async_context(reloadable(tmp_path, version(0, *ports)))
        async with load_on(app) as load:
            first = await reloads(app, load, ports, 2)
        await until(lambda: not first.alive())
        before = counted(app)
        async with load_on(app) as load:
            past = await reloads(app, load, ports, RELOADS)
        await until(lambda: not past.alive())
        await until(lambda: counted(app) <= before)
        assert (set(load.results), load.results.total() >= RELOADS * 3) == ({"200"}, True)
        assert app.process.in_flight().total == 0
        started, stopped = (sum(line.startswith(what) for line in Telling.diary) for what in ("start ", "stop "))
        assert started - stopped == 2


async def test_refused_reloads_under_load_leave_nothing_behind_either(tmp_path: Path) -> None:
    async with fake_engine(stream) as engine, fake_engine(stream) as other:
        ports = [engine.port, other.port]
        async with reloadable(tmp_path, version(0, *ports)) as app:
            async with load_on(app) as load:
                await load.more(10)
            before, generation = counted(app), app.generation
            broken = version(0, *ports).replace("note: '0'", "note: x, fails: started")
            async with load_on(app) as load:
                for text in ["plugins: [\n", broken, f"{broken}transports: {{http: {{port: {other.port}}}}}\n"] * 5:
                    assert not (await app.reload(text)).done
                    await load.more(3)
            await until(lambda: counted(app) <= before)
            assert (set(load.results), app.generation is generation) == ({"200"}, True)


async def test_a_listener_that_moves_under_load_fails_no_request_on_connections_that_are_open(tmp_path: Path) -> None:
    async with fake_engine(stream) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool) as app, load_on(app, app.url) as load:
            await load.more(CLIENTS * 2)
            await app.takes_over(f"{pool}transports: {{http: {{bind: 127.0.0.2}}}}\n")
            await until(lambda: len(app.process.sockets().addresses) == 2)
            await load.more(CLIENTS * 5)
        assert set(load.results) == {"200"}


async def test_a_thousand_endpoints_come_and_go(tmp_path: Path) -> None:
    async with fake_engine(stream) as engine, reloadable(tmp_path, endpoints(engine.port)) as app:
        few = endpoints(engine.port)
        rows = "".join(f"    - {{name: x{row}, address: 127.0.0.1, port: {engine.port}}}\n" for row in range(1000))
        many = f"pool:\n  scrape: {{interval: 1h, staleAfter: 2h}}\n  endpoints:\n{rows}"
        await app.takes_over(few + "routing: {producerDeadline: 1s}\n")
        lines = len((await app.page("/metrics"))[1].splitlines())
        before = counted(app)
        await app.takes_over(many)
        assert len(app.generation.pool().statuses()) == 1000
        await app.takes_over(few)
        await until(lambda: counted(app) <= before)
        assert len((await app.page("/metrics"))[1].splitlines()) == lines
