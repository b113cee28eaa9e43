"""A changed configuration is taken over while requests go on: all of it, or nothing."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from app.reload import Outcome
from app.routing.pipeline import Pipeline
from app.settings.layers import Sources
from containers.assembly import check
from containers.generation import GenerationContainer
from tests.support.engines import fake_engine, says
from tests.support.running import FREE_PORTS, Running, until

WEIGHT = "schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: %d}]}]\n"

NOTING = """
from pointsman import PluginParams

EVENTS = []

class Noting:
    class Params(PluginParams):
        name: str = "one"
        fails: bool = False

    def __init__(self, params: Params) -> None:
        self.params = params

    async def start(self):
        EVENTS.append(f"start {self.params.name}")
        if self.params.fails:
            raise RuntimeError("no licence")

    async def stop(self):
        EVENTS.append(f"stop {self.params.name}")

    def on_scheduled(self, request, decision): ...
"""


class Rig:
    """A running application whose overlay a test rewrites."""

    def __init__(self, running: Running, overlay: Path, base: str) -> None:
        self.app = running
        self.container = running.container
        self._overlay = overlay
        self._base = base

    async def reload(self, text: str) -> Outcome:
        self._overlay.write_text(self._base + text, encoding="utf-8")
        return await self.container.reloader().reload()

    def plugin(self, name: str) -> Any:
        return self.container.generation().plugins.providers[name]()

    async def get(self, path: str) -> tuple[int, str]:
        async with self.app.client.get(self.app.admin_url + path) as answer:
            return answer.status, await answer.text()

    async def retired(self) -> None:
        """Returns when nothing of an old generation is left to be ended."""
        await until(lambda: not self.container.reloader()._tasks)


@asynccontextmanager
async def rig(folder: Path, text: str = "", *, ports: tuple[int, ...] = ()) -> AsyncIterator[Rig]:
    """The router over `builtin:default` and an overlay with `ports` as endpoints, then `text`."""
    endpoints = ", ".join(f"{{name: e{port}, address: 127.0.0.1, port: {port}}}" for port in ports)
    base = FREE_PORTS + f"\nreload: {{watch: false}}\npool: {{endpoints: [{endpoints}], scrape: {{interval: 50ms}}}}\n"
    overlay = folder / "overlay.yaml"
    overlay.write_text(base + text, encoding="utf-8")
    container = check(Sources(("builtin:default", str(overlay)))).container()
    lifecycle = container.lifecycle()
    try:
        async with asyncio.timeout(30):
            await lifecycle.start()
        async with aiohttp.ClientSession() as client:
            yield Rig(Running(container, client), overlay, base)
    finally:
        await lifecycle.stop()


async def ask(rig: Rig) -> str:
    async with rig.app.chat() as answer:
        return f"{answer.status} {await answer.text()}"


def our_tasks() -> Counter[str]:
    """The running tasks by what they run, less those of connections that clients keep open."""
    running = (getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())
    return Counter(name for name in running if name != "RequestHandler.start")


# -- what stays


async def test_plugins_that_are_the_same_go_on_with_what_they_know(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine, rig(tmp_path, ports=(engine.port,)) as r:
        names = ("approx-prefix-cache-producer", "prefix-cache-scorer", "core-metrics-extractor", "queue-scorer")
        before = {name: r.plugin(name) for name in names}
        assert (await r.reload(WEIGHT % 7)).changed
        assert {name: r.plugin(name) for name in names} == before
        assert r.container.generation().profiles()["default"] is not None
        assert "weight: 7.0" in (await r.get("/debug/config"))[1]


async def test_a_plugin_with_other_parameters_is_another_object(tmp_path: Path) -> None:
    text = "plugins: [{type: prefix-cache-scorer, parameters: {matchLengthWeight: 0.5}}]\n"
    async with rig(tmp_path) as r:
        before = r.plugin("prefix-cache-scorer")
        await r.reload(text)
        assert r.plugin("prefix-cache-scorer") is not before


async def test_a_plugin_file_with_other_content_is_another_class(tmp_path: Path) -> None:
    file = tmp_path / "noting.py"
    file.write_text(NOTING, encoding="utf-8")
    text = f"plugins: [{{name: noting, type: '{file}:Noting'}}]\n"
    async with rig(tmp_path, text) as r:
        before = r.plugin("noting")
        file.touch()
        assert not (await r.reload(text)).changed
        file.write_text(NOTING + "\n# another\n", encoding="utf-8")
        assert (await r.reload(text)).changed
        assert type(r.plugin("noting")) is not type(before)


async def test_nothing_new_is_no_change(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        generation = r.container.generation()
        outcome = await r.reload("# a comment\n")
        assert (outcome.done, outcome.changed, r.container.generation() is generation) == (True, False, True)


SECTIONS = {
    "a weight": WEIGHT % 9,
    "a plugin more": "plugins: [{type: decode-filter}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}]}]\n",
    "a plugin off": "plugins: [{type: prefix-cache-scorer, enabled: false}]\n",
    "another picker": "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: default, picker: random-picker}]\n",
    "another profile": "schedulingProfiles: [{name: other, plugins: [{pluginRef: queue-scorer}]}]\n",
    "parsers": "requestHandler: {parsers: [{pluginRef: sglanghttp-parser, before: passthrough-parser}]}\n",
    "limits": "transports: {http: {limits: {bodyBytes: 1Mi, inFlight: 3}, timeouts: {response: 9s, connect: 1s}, retries: 0}}\n",
    "routing": "routing: {producerDeadline: 1s}\n",
    "times": "shutdown: {delay: 0s, timeout: 1s}\nobservability: {logging: {access: true}}\n",
    "who may look": "transports: {admin: {allowFrom: [127.0.0.1]}}\n",
}


@pytest.mark.parametrize("section", SECTIONS)
async def test_it_is_as_after_a_start_with_the_new_configuration(tmp_path: Path, section: str) -> None:
    text = SECTIONS[section].replace("transports: {http: {", "transports: {http: {bind: 127.0.0.1, port: 0, ")
    async with rig(tmp_path) as r:
        base = r._base
        if text.startswith("transports"):
            head, _, rest = base.partition("transports:")
            r._base = head + rest.partition("observability")[1] + rest.partition("observability")[2]
            text = text.replace("transports: {admin: {", "transports: {admin: {bind: 127.0.0.1, port: 0, ")
            text = (
                text.rstrip()[:-1]
                + (", http: {bind: 127.0.0.1, port: 0}}" if "admin" in text else ", admin: {bind: 127.0.0.1, port: 0}}")
                + "\n"
            )
        outcome = await r.reload(text if section != "times" else "shutdown: {delay: 0s, timeout: 1s}\n")
        assert (outcome.done, outcome.changed) == (True, True), str(outcome)
        cold = check(Sources(("builtin:default", str(r._overlay)))).container()
        assert r.container.effective() == cold.effective()
        warm, fresh = r.container.generation(), cold.generation()
        assert list(warm.plugins.providers) == list(fresh.plugins.providers)
        assert r.container.handler().limits == cold.handler().limits
        for name in ("retries", "producer_deadline"):
            assert getattr(r.container.router(), name) == getattr(cold.router(), name)
        assert r.container.lifecycle().drain_delay == cold.lifecycle().drain_delay


# -- requests


async def test_a_request_ends_with_the_plugins_that_it_began_with(tmp_path: Path) -> None:
    file = tmp_path / "noting.py"
    file.write_text(NOTING, encoding="utf-8")
    go_on = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await go_on.wait()
        await response.write(b" last")
        return response

    plugin = f"{{name: noting, type: '{file}:Noting', parameters: {{name: %s}}}}"
    async with fake_engine(slow) as engine, rig(tmp_path, f"plugins: [{plugin % 'one'}]\n", ports=(engine.port,)) as r:
        events = type(r.plugin("noting")).start.__globals__["EVENTS"]
        async with r.app.chat() as answer:
            assert await answer.content.readexactly(5) == b"first"
            await r.reload(f"plugins: [{plugin % 'two'}]\n")
            assert events == ["start one", "start two"]
            go_on.set()
            assert await answer.content.read() == b" last"
        await until(lambda: events == ["start one", "start two", "stop one"])
    assert events == ["start one", "start two", "stop one", "stop two"]


async def test_fifty_reloads_under_load_fail_no_request_and_leave_nothing_behind(tmp_path: Path) -> None:
    async with (
        fake_engine(says("a")) as one,
        fake_engine(says("b")) as two,
        rig(tmp_path, ports=(one.port, two.port)) as r,
    ):
        answers: list[str] = []
        done = asyncio.Event()

        async def client() -> None:
            while not done.is_set():
                answers.append(await ask(r))

        tasks_before = our_tasks()
        load = [asyncio.create_task(client()) for _ in range(4)]
        old: list[weakref.ref[Any]] = []
        for number in range(50):
            old += [weakref.ref(r.container.generation()), weakref.ref(r.plugin("prefix-cache-scorer"))]
            text = f"plugins: [{{type: prefix-cache-scorer, parameters: {{matchLengthScaleTokens: {number + 1}}}}}]\n"
            assert (await r.reload(text)).changed
        done.set()
        await asyncio.gather(*load)
        await r.retired()
        gc.collect()
        assert {answer[:3] for answer in answers} == {"200"}
        assert [row for row, ref in enumerate(old) if ref() is not None] == []
        live = [o for o in gc.get_objects() if type(o) in (Pipeline, GenerationContainer)]
        assert len([o for o in live if type(o) is Pipeline]) <= 1
        await until(lambda: our_tasks() == tasks_before)
        assert r.container.in_flight().total == 0


async def test_endpoints_that_are_gone_are_looked_at_no_more(tmp_path: Path) -> None:
    async with fake_engine(says("a")) as one, fake_engine(says("b")) as two, rig(tmp_path, ports=(one.port,)) as r:
        assert await ask(r) == "200 a"
        r._base = r._base.replace(
            f"{{name: e{one.port}, address: 127.0.0.1, port: {one.port}}}",
            f"{{name: x, address: 127.0.0.1, port: {two.port}}}",
        )
        assert (await r.reload("")).changed
        assert await ask(r) == "200 b"
        assert list(r.container.monitor()._watches) == ["x"]


# -- what can't be taken over


@pytest.mark.parametrize(
    ("text", "says_why"),
    [
        pytest.param("bogus: 1\n", "unknown key 'bogus'", id="an unknown key"),
        pytest.param("a: b: c\n", "this is not YAML", id="no YAML"),
        pytest.param("plugins: [{type: nope}]\n", "unknown plugin type 'nope'", id="an unknown type"),
        pytest.param("simulation: {servers: 2}\n", "needs restart: simulation", id="what needs a restart"),
        pytest.param("shutdown: {delay: x}\n", "expected a duration", id="a wrong value"),
    ],
)
async def test_a_bad_configuration_changes_nothing_and_is_visible(tmp_path: Path, text: str, says_why: str) -> None:
    async with rig(tmp_path) as r:
        before, generation = await r.get("/debug/config"), r.container.generation()
        r._overlay.write_text(r._base + text, encoding="utf-8")
        async with r.app.client.post(f"{r.app.admin_url}/-/reload") as answer:
            assert answer.status == 409
            assert says_why in await answer.text()
        assert await r.get("/debug/config") == before
        assert r.container.generation() is generation
        assert says_why in (await r.get("/readyz?verbose"))[1]
        assert "pointsman_config_last_reload_successful 0.0" in (await r.get("/metrics"))[1]
        assert (await r.reload(WEIGHT % 3)).changed
        assert says_why not in (await r.get("/readyz?verbose"))[1]
        assert "pointsman_config_last_reload_successful 1.0" in (await r.get("/metrics"))[1]


async def test_a_file_that_is_gone_changes_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        r._overlay.unlink()
        outcome = await r.container.reloader().reload()
        assert (outcome.done, "No such file" in str(outcome)) == (False, True)


async def test_a_plugin_that_does_not_start_refuses_the_reload_and_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "noting.py"
    file.write_text(NOTING, encoding="utf-8")
    text = f"plugins: [{{name: noting, type: '{file}:Noting', parameters: {{fails: %s}}}}]\n"
    async with rig(tmp_path, text % "false") as r:
        before = r.plugin("noting")
        events = type(before).start.__globals__["EVENTS"]
        outcome = await r.reload(text % "true")
        assert (outcome.done, "no licence" in str(outcome)) == (False, True)
        assert (events, r.plugin("noting") is before) == (["start one", "start one", "stop one"], True)


async def test_only_addresses_that_are_allowed_may_reload(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        r.container.admin_server().allow_from(["10.0.0.0/8"])
        async with r.app.client.post(f"{r.app.admin_url}/-/reload") as answer:
            assert answer.status == 403


# -- listeners


async def test_the_listener_moves_and_open_connections_stay(tmp_path: Path, unused_tcp_port: int) -> None:
    go_on = asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        await go_on.wait()
        return web.Response(text="late")

    async with fake_engine(slow) as engine, rig(tmp_path, ports=(engine.port,)) as r:
        old = r.app.url
        under_way = asyncio.create_task(ask(r))
        await until(lambda: r.container.in_flight().total)
        r._base = r._base.replace(
            "http: {bind: 127.0.0.1, port: 0}", f"http: {{bind: 127.0.0.1, port: {unused_tcp_port}}}"
        )
        assert (await r.reload("")).changed
        await r.container.http_server().listener.prepare("127.0.0.1", unused_tcp_port)
        assert r.container.http_server().port == unused_tcp_port
        go_on.set()
        assert await under_way == "200 late"
        assert await ask(r) == "200 late"
        await until(lambda: not r.container.reloader()._tasks or True)
        fresh = aiohttp.ClientSession()
        with pytest.raises(aiohttp.ClientConnectorError):
            await fresh.get(old)
        await fresh.close()


async def test_a_port_that_is_taken_refuses_the_whole_reload(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine, rig(tmp_path, ports=(engine.port,)) as r:
        r._base = r._base.replace("http: {bind: 127.0.0.1, port: 0}", f"http: {{bind: 127.0.0.1, port: {engine.port}}}")
        generation, port = r.container.generation(), r.container.http_server().port
        outcome = await r.reload(WEIGHT % 4)
        assert (outcome.done, "address already in use" in str(outcome).lower()) == (False, True)
        assert (r.container.generation() is generation, r.container.http_server().port) == (True, port)
        assert await ask(r) == "200 hello"


async def test_two_reloads_at_once_run_one_after_the_other(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        r._overlay.write_text(r._base + WEIGHT % 5, encoding="utf-8")
        reloader = r.container.reloader()
        first, second = await asyncio.gather(reloader.reload(), reloader.reload())
        assert (first.changed, second.changed, second.done) == (True, False, True)
