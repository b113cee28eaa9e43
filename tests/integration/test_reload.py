"""A changed configuration is taken over while requests go on: all of it, or nothing."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from app.observability.logging import set_up_logging
from app.settings.layers import Sources
from containers.application import Application, load
from tests.support.engines import fake_engine, says
from tests.support.reloads import FINDING, TELLING, Finding, Reloadable, Telling, endpoints, reloadable
from tests.support.running import FREE_PORTS, until


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Only errors are logged, and nothing has been told yet."""
    set_up_logging(format="console", level="error")
    Telling.diary.clear()
    Telling.gate = Finding.gate = None


def told(*names: str, **parameters: object) -> str:
    """The configuration of `Telling` plugins of these names, those with parameters being the last one's."""
    shown = ", ".join(f"{key}: {value}" for key, value in parameters.items())
    listed = [f"  - {{name: {name}, type: '{TELLING}'}}\n" for name in names[:-1]]
    listed.append(f"  - {{name: {names[-1]}, type: '{TELLING}', parameters: {{{shown}}}}}\n")
    used = ", ".join(f"{{pluginRef: {name}}}" for name in names)
    return f"plugins:\n{''.join(listed)}schedulingProfiles: [{{name: default, plugins: [{used}]}}]\n"


def weight(value: float) -> str:
    """A configuration in which the queue's weight is `value`."""
    return f"schedulingProfiles: [{{name: default, plugins: [{{pluginRef: expected-ttft-scorer, weight: {value}}}]}}]\n"


@asynccontextmanager
async def slow_engine() -> AsyncIterator[tuple[Any, asyncio.Event]]:
    """An engine whose answers are begun at once and end when the event is set."""
    go = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await go.wait()
        await response.write(b"data: 2\n\n")
        return response

    async with fake_engine(answer) as engine:
        yield engine, go


# -- what goes on


async def test_a_conversation_stays_where_it_was_when_a_weight_is_changed_elsewhere(tmp_path: Path) -> None:
    async with fake_engine(says()) as a, fake_engine(says()) as b:
        pool = endpoints(a.port, b.port)
        async with reloadable(tmp_path, pool) as app:
            talks = [f"You are number {number}. " * 60 for number in range(20)]
            before = [await app.served_by(talk) for talk in talks]
            await app.takes_over(pool + weight(5))
            after = [await app.served_by(talk + "And then?") for talk in talks]
            assert (after, len(set(before))) == (before, 2)


@pytest.mark.parametrize(
    ("parameters", "remembers"),
    [
        pytest.param("lruCapacityPerServer: 100", True, id="another capacity"),
        pytest.param("maxPrefixTokensToMatch: 1024", True, id="another bound"),
        pytest.param("autoTune: false", False, id="blocks of another size"),
    ],
)
async def test_what_a_plugin_learnt_is_inherited_as_far_as_it_fits_the_parameters(
    parameters: str, remembers: bool, tmp_path: Path
) -> None:
    async with fake_engine(says()) as a:
        pool = endpoints(a.port)
        other = pool + f"plugins: [{{type: approx-prefix-cache-producer, parameters: {{{parameters}}}}}]"
        async with reloadable(tmp_path, pool) as app:
            await app.served_by("You are anna. " * 60)
            known = [len(app.plugin("approx-prefix-cache-producer")._memory._index)]
            await app.takes_over(other)
            known.append(len(app.plugin("approx-prefix-cache-producer")._memory._index))
            assert (known[0] > 0, known[1] > 0) == (True, remembers)


async def test_metrics_of_dropped_plugins_vanish_and_those_of_kept_ones_go_on(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("gone", "kept")) as app:
            await app.served_by("hi")
            before = [await app.metric(f'told_total{{plugin="{name}"}}') for name in ("gone", "kept", "new")]
            await app.takes_over(pool + told("kept", "new", note="x"))
            await app.served_by("hi")
            after = [await app.metric(f'told_total{{plugin="{name}"}}') for name in ("gone", "kept", "new")]
            assert (before, after) == (["1.0", "1.0", None], [None, "2.0", "1.0"])


async def test_metrics_of_a_plugin_that_is_built_anew_begin_anew(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("a")) as app:
            await app.served_by("hi")
            await app.takes_over(pool + told("a", note="x"))
            assert await app.metric('told_total{plugin="a"}') == "0.0"


async def test_metrics_of_a_plugin_that_was_refused_are_not_shown(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("a")) as app:
        await app.reload(told("a", "b", fails="started"))
        assert [await app.metric(f'told_total{{plugin="{name}"}}') for name in "ab"] == ["0.0", None]


# -- requests in flight


async def test_a_request_in_flight_ends_with_the_plugins_it_began_with(tmp_path: Path) -> None:
    async with slow_engine() as (engine, go):
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("old")) as app:
            async with app.chat() as answer:
                begun = await answer.content.readany()
                await app.takes_over(pool + told("new"))
                waits = list(Telling.diary)
                go.set()
                rest = await answer.content.read()
            await until(lambda: "stop old" in Telling.diary)
            assert (begun, rest, waits) == (b"data: 1\n\n", b"data: 2\n\n", ["start old", "start new"])
            assert Telling.diary == ["start old", "start new", "finished old", "stop old"]


async def test_a_dropped_plugin_lives_until_the_last_of_several_requests_has_ended(tmp_path: Path) -> None:
    holds = [asyncio.Event() for _ in range(3)]
    waiting = iter(holds)

    async def answer(_: web.Request) -> web.StreamResponse:
        await next(waiting).wait()
        return web.Response()

    async with fake_engine(answer) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("old")) as app:
            requests = [asyncio.create_task(app.served_by(f"{number}")) for number in range(3)]
            await until(lambda: len(engine.seen) == 3)
            await app.takes_over(pool)
            for hold, done in zip(holds, (1, 2, 3), strict=True):
                assert "stop old" not in Telling.diary
                hold.set()
                await until(lambda done=done: sum(task.done() for task in requests) == done)
            await until(lambda: "stop old" in Telling.diary)
            assert Telling.diary == ["start old", *["finished old"] * 3, "stop old"]


async def test_a_new_plugin_has_started_before_the_first_request_meets_it(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    async with fake_engine(says()) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("old")) as app:
            reload = asyncio.create_task(app.takes_over(pool + told("new", waits="true")))
            await until(lambda: "start new" in Telling.diary)
            await app.served_by("hi")
            Telling.gate.set()
            await reload
            await app.served_by("hi")
            assert [line for line in Telling.diary if line.startswith("finished")] == ["finished old", "finished new"]


async def test_every_plugin_is_built_and_started_anew_before_the_previous_ones_stop(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("a", "b")) as app:
        before = app.plugin("b")
        await app.takes_over(told("b", "c", note="x"))
        await until(lambda: "stop a" in Telling.diary)
        assert Telling.diary == ["start a", "start b", "start b", "start cx", "stop b", "stop a"]
        assert app.plugin("b") is not before
    assert Telling.diary[6:] == ["stop cx", "stop b"]


async def test_a_plugin_with_other_parameters_is_started_before_the_one_of_its_name_stops(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("a")) as app:
        await app.takes_over(told("a", note="x"))
        await until(lambda: "stop a" in Telling.diary)
    assert Telling.diary == ["start a", "start ax", "stop a", "stop ax"]


async def test_a_plugin_that_can_t_start_refuses_all_and_what_was_begun_is_stopped(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("old")) as app:
        old = app.plugin("old")
        outcome = await app.reload(told("old", "x", "y", fails="started"))
        assert (outcome.done, outcome.reasons) == (False, ["LookupError: can't begin"])
        assert Telling.diary == ["start old", "start old", "start x", "start y", "stop y", "stop x", "stop old"]
        assert app.plugin("old") is old


async def test_a_plugin_that_can_t_be_built_refuses_all_and_is_named_with_its_place(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("old")) as app:
        outcome = await app.reload(told("old", "x", fails="built"))
        assert outcome.reasons == [
            f"{app.path}:3:5: plugins[1]: the plugin 'x' can't be built: LookupError: no such thing"
        ]
        assert Telling.diary == ["start old"]


async def test_a_plugin_that_can_t_stop_keeps_no_other_from_stopping(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("a", "b")) as app:

        async def broken() -> None:
            raise LookupError("oh")

        alive = app.generation.generation()._alive
        place = [component.name for component in alive._started].index("b")
        alive._started[place] = replace(alive._started[place], stop=broken)
        await app.takes_over("")
        await until(lambda: "stop a" in Telling.diary)


# -- what can't be used changes nothing


TAKEN = "transports: {http: {port: PORT}}\n"

BAD: list[Any] = [
    pytest.param("plugins: [\n", "this is not YAML", id="syntax"),
    pytest.param("pool: {scrapes: {interval: 1s}}\n", "unknown key 'scrapes'", id="unknown key"),
    pytest.param("pool: {scrape: {interval: soon}}\n", "'soon'", id="wrong value"),
    pytest.param("plugins: [{type: queue-scorr}]\n", "unknown plugin type 'queue-scorr'", id="unknown plugin"),
    pytest.param(
        "plugins: [{type: '/nowhere/at/all.py:A'}]\n", "/nowhere/at/all.py can't be read", id="no plugin file"
    ),
    pytest.param("simulation: {servers: 1}\n", "needs restart: simulation.servers", id="simulation"),
    pytest.param(
        "simulation: {servers: 1, model: other, seed: 3}\n",
        "needs restart: simulation.model, simulation.seed, simulation.servers",
        id="several settings that the process reads",
    ),
    pytest.param(told("a", fails="built"), "can't be built", id="constructor"),
    pytest.param(told("a", fails="started"), "LookupError: can't begin", id="start"),
    pytest.param(told("a", fails="ended"), "SystemExit: enough", id="start that ends the process"),
    pytest.param(
        "plugins: [{type: file-discovery, parameters: {path: /nowhere/at/all.yaml}}]\n"
        "dataLayer: {discovery: {pluginRef: file-discovery}}\n",
        "/nowhere/at/all.yaml: No such file or directory",
        id="no endpoints file",
    ),
    pytest.param(TAKEN, "address already in use", id="taken port"),
    pytest.param(None, "No such file or directory", id="file gone"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
async def test_what_can_t_be_used_changes_nothing_and_is_seen_until_a_good_one_comes(
    bad: str | None, reason: str, tmp_path: Path
) -> None:
    async with fake_engine(says()) as engine, reloadable(tmp_path, endpoints(engine.port)) as app:
        pool = endpoints(engine.port)
        before = await state_of(app)
        if bad is None:
            app.path.unlink()
        else:
            other = "routing: {producerDeadline: 7s}\n"  # beside the fault a change that must not be taken over
            app.path.write_text(other + bad.replace("PORT", str(engine.port)))
        with capture_logs() as logs:
            status, text = await app.page("/-/reload", "POST")
        assert (status, reason in text, text.splitlines()[0]) == (
            409, True, "the configuration was not applied; the last good one stays in effect",
        )  # fmt: skip
        assert await state_of(app) == before
        refused = [line for line in logs if line["event"].startswith("configuration reload failed")]
        assert (len(refused), reason in str(refused[0]["reasons"]), refused[0]["log_level"]) == (1, True, "error")
        assert await app.metric("pointsman_config_last_reload_successful") == "0.0"
        ready, verbose = await app.page("/readyz?verbose")
        assert (ready, "[!] configuration reload at " in verbose, reason in verbose) == (200, True, True)
        assert (await app.page("/readyz"))[1] == "ready\n"

        app.path.write_text(pool + weight(7))
        assert await app.page("/-/reload", "POST") == (200, "the configuration was applied\n")
        assert await app.metric("pointsman_config_last_reload_successful") == "1.0"
        assert "[!]" not in (await app.page("/readyz?verbose"))[1]
        assert (await state_of(app))[0] != before[0]


async def state_of(app: Reloadable) -> tuple[object, ...]:
    """All of the configuration that can be seen from outside, byte by byte, and the objects that requests meet."""
    pipeline = app.generation.router().pipeline
    parts = app.generation.generation()._alive.started
    sites = [str(address) for address in app.process.sockets().addresses]
    _, configuration = await app.page("/debug/config")
    return configuration, pipeline, app.url, app.admin_url, app.generation.pool().names, parts, sites


async def test_an_unchanged_file_after_a_refused_one_clears_it(tmp_path: Path) -> None:
    async with reloadable(tmp_path, weight(5)) as app:
        await app.reload("plugins: [\n")
        seen = [await app.metric("pointsman_config_last_reload_successful")]
        app.path.write_text(weight(5))
        answer = await app.page("/-/reload", "POST")
        seen.append(await app.metric("pointsman_config_last_reload_successful"))
        assert (seen, answer) == (["0.0", "1.0"], (200, "nothing has changed\n"))


async def test_a_reload_is_counted_by_its_result(tmp_path: Path) -> None:
    async with reloadable(tmp_path, "") as app:
        for text in (weight(5), weight(5), "plugins: [\n", weight(6)):
            await app.reload(text)
        results = [
            await app.metric(f'pointsman_config_reloads_total{{result="{result}"}}')
            for result in ("applied", "unchanged", "refused")
        ]
        assert results == ["2.0", "1.0", "1.0"]


async def test_warnings_are_part_of_the_answer(tmp_path: Path) -> None:
    async with reloadable(tmp_path, "") as app:
        app.path.write_text("plugins: [{type: queue-scorer, name: idle}]\n")
        status, text = await app.page("/-/reload", "POST")
        assert status == 200
        assert f"{app.path}:1:11: warning: plugins[0]: the plugin 'idle' is in no profile and never runs" in text


@pytest.mark.parametrize("networks", ["[]", "[10.0.0.0/8]"])
async def test_addresses_that_are_not_allowed_reload_nothing(networks: str, tmp_path: Path) -> None:
    async with reloadable(tmp_path, f"transports: {{admin: {{allowFrom: {networks}}}}}") as app:
        app.path.write_text(weight(9))
        status, text = await app.page("/-/reload", "POST")
        assert (status, "transports.admin.allowFrom" in text, app.process.reloader().last) == (403, True, None)


async def test_a_reload_changes_who_may_look(tmp_path: Path) -> None:
    async with reloadable(tmp_path, "") as app:
        app.path.write_text("transports: {admin: {allowFrom: []}}")
        statuses = [(await app.page("/-/reload", "POST"))[0], (await app.page("/-/reload", "POST"))[0]]
        assert statuses == [200, 403]


# -- unchanged content


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(lambda path: path.touch(), id="touched"),
        pytest.param(lambda path: path.write_text(path.read_text() + "# a remark\n"), id="a comment"),
        pytest.param(
            lambda path: path.write_text("{schedulingProfiles: " + weight(5)[20:].strip() + "}"), id="another form"
        ),
        pytest.param(
            lambda path: path.write_text(weight(5) + "pool: {models: {interval: 10s}}"), id="a default spelt out"
        ),
    ],
)
async def test_the_same_configuration_makes_no_new_generation(same: Callable[[Path], object], tmp_path: Path) -> None:
    async with reloadable(tmp_path, weight(5)) as app:
        before = app.generation, app.generation.router().pipeline
        same(app.path)
        outcome = await app.reload()
        assert (outcome.done, outcome.changed, str(outcome)) == (True, False, "nothing has changed")
        assert (app.generation, app.generation.router().pipeline) == before


# -- watched files

WATCHED = "reload: {watch: true, settle: SETTLE}\n"


def deadline(seconds: int, settle: str = "20ms") -> str:
    """A watched configuration that can be told from others."""
    return WATCHED.replace("SETTLE", settle) + f"routing: {{producerDeadline: {seconds}s}}\n"


def put(path: Path, text: str | None) -> None:
    """Writes `text`, or removes the file."""
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


async def rename_over(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


async def write(path: Path, text: str) -> None:
    put(path, text)


async def write_in_two_steps(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text[: text.index("routing")])  # which is a configuration of its own
        file.flush()
        await asyncio.sleep(0.3)
        file.write(text[text.index("routing") :])


async def delete_and_create(path: Path, text: str) -> None:
    put(path, None)
    await asyncio.sleep(0.05)
    put(path, text)


async def touch_and_write(path: Path, text: str) -> None:
    os.utime(path)
    put(path, text)


async def break_and_mend(path: Path, text: str) -> None:
    put(path, "plugins: [\n")
    put(path, text)


async def swap_links(path: Path, text: str) -> None:
    """As the kubelet does with a ConfigMap, of which only `..data` changes."""
    new = path.parent / f"..{len(list(path.parent.iterdir()))}"
    new.mkdir()
    (new / path.name).write_text(text)
    link = path.with_name("..data_tmp")
    link.symlink_to(new.name)
    link.rename(path.with_name("..data"))


@pytest.mark.parametrize(
    "change",
    [rename_over, write, write_in_two_steps, delete_and_create, touch_and_write, break_and_mend, swap_links],
    ids=lambda change: change.__name__,
)
async def test_a_changed_file_is_taken_over_exactly_once(
    change: Callable[[Path, str], Awaitable[None]], tmp_path: Path
) -> None:
    settle = "400ms" if change is write_in_two_steps else "30ms"
    mount = tmp_path / "mount"
    mount.mkdir()
    path = mount / "pointsman.yaml"
    if change is swap_links:
        await swap_links(path, deadline(1, settle))
        path.symlink_to("..data/pointsman.yaml")
    else:
        path.write_text(deadline(1, settle))
    async with reloadable(mount, None) as app:
        for number in (2, 3):
            await change(path, deadline(number, settle))
            await until(lambda number=number: app.generation.router().producer_deadline == number)
        outcomes = [
            await app.metric(f'pointsman_config_reloads_total{{result="{result}"}}')
            for result in ("applied", "refused", "unchanged")
        ]
        assert outcomes == ["2.0", None, None]
        assert f"producerDeadline: {number}s" in (await app.page("/debug/config"))[1]


async def test_a_file_that_is_touched_is_not_loaded_again(tmp_path: Path) -> None:
    async with reloadable(tmp_path, deadline(1)) as app:
        for _ in range(3):
            app.path.touch()
        app.path.with_name("neighbour.yaml").write_text("new")
        await rename_over(app.path, deadline(2))
        await until(lambda: app.process.reloader().last)
        assert await app.metric('pointsman_config_reloads_total{result="applied"}') == "1.0"
        assert await app.metric('pointsman_config_reloads_total{result="unchanged"}') is None


async def test_a_broken_file_is_refused_once_and_a_mended_one_taken_over(tmp_path: Path) -> None:
    async with reloadable(tmp_path, deadline(1)) as app:
        app.path.write_text("plugins: [\n")
        await until(lambda: app.process.reloader().last)
        app.path.write_text(deadline(2))
        await until(lambda: app.generation.router().producer_deadline == 2)
        results = [
            await app.metric(f'pointsman_config_reloads_total{{result="{result}"}}')
            for result in ("applied", "refused", "unchanged")
        ]
        assert results == ["1.0", "1.0", None]


async def test_a_plugin_s_file_is_watched_as_well(tmp_path: Path) -> None:
    file = tmp_path / "favourite.py"
    scorer = "class Favourite:\n    def score(self, request, candidates):\n        return [{} for _ in candidates]\n"
    file.write_text(scorer.format(0))
    async with reloadable(tmp_path, deadline(1) + f"plugins: [{{name: f, type: '{file}:Favourite'}}]\n") as app:
        before = app.plugin("f")
        file.write_text(scorer.format(0.25))
        await until(lambda: app.plugin("f") is not before)
        assert app.plugin("f").score(None, [1]) == [0.25]


async def test_a_file_that_changed_while_the_process_started_is_taken_over(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    path = tmp_path / "pointsman.yaml"
    path.write_text(deadline(1) + told("a", waits="true"))
    application = Application(load(Sources(("builtin:default", str(path)), FREE_PORTS)))
    runner = application.runner()
    starting = asyncio.create_task(runner.start())
    await until(lambda: "start a" in Telling.diary)
    path.write_text(deadline(2) + told("a", waits="true"))
    Telling.gate.set()
    await starting
    await until(lambda: application.generation.router().producer_deadline == 2)
    await runner.stop()


# -- what lives in the process


ACTIVE = """
plugins:
  - {name: load, type: inflight-load-producer, parameters: {outputRatio: RATIO, addEstimatedOutputTokens: true}}
  - {name: active, type: active-request-scorer, parameters: {inFlightLoadProducerName: load}}
schedulingProfiles:
  - {name: default, plugins: [{pluginRef: expected-ttft-scorer, weight: 0}, {pluginRef: active, weight: 1}]}
""".replace("RATIO", "1.5")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(ACTIVE, id="nothing"),
        pytest.param(ACTIVE.replace("1.5", "3.0"), id="a parameter"),
        pytest.param(
            ACTIVE.replace("load", "counts")
            .replace("inflight-counts", "inflight-load")
            .replace("inFlightCounts", "inFlightLoad"),
            id="its name",
        ),
        pytest.param(ACTIVE.replace("weight: 1", "weight: 2"), id="a weight elsewhere"),
    ],
)
@pytest.mark.parametrize(
    "before", [pytest.param(ACTIVE, id="counted before"), pytest.param("", id="not counted before")]
)
async def test_requests_in_flight_count_whatever_a_reload_changes(before: str, after: str, tmp_path: Path) -> None:
    go = asyncio.Event()

    async def held(_: web.Request) -> web.StreamResponse:
        await go.wait()
        return web.Response()

    async with fake_engine(held) as busy, fake_engine(says()) as idle:
        alone = endpoints(busy.port)
        async with reloadable(tmp_path, alone + before) as app:
            requests = [asyncio.create_task(app.served_by(f"held {number}")) for number in range(6)]
            await until(lambda: len(busy.seen) == 6)
            await app.takes_over(endpoints(busy.port, idle.port) + after)
            picks = [await app.served_by(f"new {number}") for number in range(8)]
            go.set()
            await asyncio.gather(*requests)
            assert picks == [f"127.0.0.1:{idle.port}"] * 8
            after_all = app.generation.pool().candidates().in_flight.tolist()
            assert (after_all, app.process.in_flight()._open) == ([0, 0], {})


async def test_limits_and_timeouts_for_clients_count_on_connections_that_are_open(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine:
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool) as app:
            reader, writer = await asyncio.open_connection("127.0.0.1", app.port)
            long = f"GET /v1/x HTTP/1.1\r\nhost: x\r\npadding: {'x' * 2000}\r\n\r\n".encode()
            statuses = []
            for text in (
                pool,
                f"{pool}transports: {{http: {{limits: {{headerBytes: 1Ki}}, timeouts: {{keepAlive: 50ms}}}}}}\n",
            ):
                if text != pool:
                    await app.takes_over(text)
                writer.write(long)
                head = await reader.readuntil(b"\r\n\r\n")
                statuses.append(int(head.split()[1]))
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            writer.close()
            idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", app.port)
            async with asyncio.timeout(5):
                ended = await idle_reader.read()
            idle_writer.close()
            assert (statuses, ended) == ([200, 431], b"")


# -- listeners


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("what", ["http", "admin"])
async def test_a_listener_moves_to_another_port(what: str, tmp_path: Path) -> None:
    async with fake_engine(says()) as engine, reloadable(tmp_path, endpoints(engine.port)) as app:
        old, new = (app.url if what == "http" else app.admin_url), free_port()
        await app.takes_over(endpoints(engine.port) + f"transports: {{{what}: {{port: {new}}}}}")
        now = app.url if what == "http" else app.admin_url
        assert now == f"http://127.0.0.1:{new}"
        await until_closed(old)
        assert await app.served_by("hi") == f"127.0.0.1:{engine.port}"
        assert (await app.page("/readyz"))[0] == 200


async def until_closed(url: str) -> None:
    """Waits until nobody takes connections there."""

    async def closed() -> bool:
        async with aiohttp.ClientSession() as client:
            try:
                async with client.get(f"{url}/healthz"):
                    return False
            except aiohttp.ClientConnectorError:
                return True

    async with asyncio.timeout(10):
        while not await closed():
            await asyncio.sleep(0.005)


async def test_a_connection_that_is_open_ends_its_request_when_the_listener_moves(tmp_path: Path) -> None:
    async with slow_engine() as (engine, go):
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool) as app, app.chat() as answer:
            begun, old = await answer.content.readany(), app.url
            await app.takes_over(pool + f"transports: {{http: {{port: {free_port()}}}}}")
            await until_closed(old)
            go.set()
            assert (begun, await answer.content.read()) == (b"data: 1\n\n", b"data: 2\n\n")


async def test_a_listener_may_move_back(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    async with reloadable(tmp_path, f"transports: {{http: {{port: {first}}}}}") as app:
        for port in (second, first, second):
            await app.takes_over(f"transports: {{http: {{port: {port}}}}}")
            await until(lambda: len(app.process.sockets().addresses) == 2)
            async with app.client.get(f"http://127.0.0.1:{port}/v1/models") as answer:
                assert answer.status == 503


async def test_a_port_that_is_taken_closes_what_was_opened_before_it(tmp_path: Path) -> None:
    new = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        async with reloadable(tmp_path, "") as app:
            before = await state_of(app)
            outcome = await app.reload(
                f"transports: {{http: {{port: {new}}}, admin: {{port: {other.getsockname()[1]}}}}}"
            )
            assert (outcome.done, await state_of(app)) == (False, before)
            await until_closed(f"http://127.0.0.1:{new}")


# -- the fleet


async def test_endpoints_that_went_are_no_longer_looked_at_and_new_ones_are(tmp_path: Path) -> None:
    looks: dict[str, int] = {"old": 0, "kept": 0, "new": 0}

    async with counting(looks, "old") as old, counting(looks, "kept") as kept, counting(looks, "new") as new:
        often = "scrape: {interval: 10ms}, models: {interval: 0s}"

        def pool(first: int, second: int) -> str:
            return (
                f"pool: {{endpoints: [{{name: a, address: 127.0.0.1, port: {first}}}, "
                f"{{name: b, address: 127.0.0.1, port: {second}}}], {often}}}"
            )

        async with reloadable(tmp_path, pool(old, kept)) as app:
            await until(lambda: looks["old"] > 1 and looks["kept"] > 1)
            await app.takes_over(pool(kept, new).replace("name: a", "name: x").replace("name: b", "name: a"))
            await until(lambda: looks["new"] > 1)
            seen = looks["old"]
            begun = looks["new"]
            await until(lambda: looks["new"] > begun + 20)
            assert looks["old"] == seen
            assert {status.endpoint.name for status in app.generation.pool().statuses()} == {"x", "a"}
            names = {task.get_name() for task in asyncio.all_tasks()}
            assert {name for name in names if name.startswith("watch ")} == {"watch x", "watch a"}


@asynccontextmanager
async def counting(looks: dict[str, int], name: str) -> AsyncIterator[int]:
    """A server that counts the connections and requests it gets, whatever they want; gives its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        looks[name] += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_an_endpoint_that_stays_keeps_all_that_is_known_of_it(tmp_path: Path) -> None:
    async with fake_engine(says()) as a, fake_engine(says()) as b:
        async with reloadable(tmp_path, endpoints(a.port)) as app:
            pool = app.generation.pool()
            await until(lambda: pool.statuses()[0].models)
            before = pool.statuses()[0], pool.incarnation("e0")
            await app.takes_over(endpoints(a.port, b.port))
            assert (pool.statuses()[0], pool.incarnation("e0")) == before
            assert app.generation.pool().names == {"e0", "e1"}


def finding(**parameters: object) -> str:
    """A configuration with a discovery."""
    shown = ", ".join(f"{key}: {value}" for key, value in parameters.items())
    return (
        f"plugins: [{{name: finding, type: '{FINDING}', parameters: {{{shown}}}}}]\n"
        "dataLayer: {discovery: {pluginRef: finding}}\n"
    )


async def test_another_discovery_takes_over_without_a_moment_of_no_endpoints(tmp_path: Path) -> None:
    Finding.gate = asyncio.Event()
    async with reloadable(tmp_path, finding(name="one")) as app:
        lists: list[set[str]] = []
        app.generation.pool().table.subscribe(
            lambda: lists.append({s.endpoint.name for s in app.generation.pool().statuses()})
        )
        reload = asyncio.create_task(app.takes_over(finding(name="two", waits="true")))
        await until(lambda: "two" in Finding.running)
        meanwhile = {status.endpoint.name for status in app.generation.pool().statuses()}
        Finding.gate.set()
        await reload
        await until(lambda: Finding.running == ["two"])
        assert (meanwhile, lists) == ({"one"}, [{"two"}])
    assert Finding.running == []


async def test_an_endpoint_that_a_new_run_of_the_discovery_finds_again_stays_the_same(tmp_path: Path) -> None:
    async with reloadable(tmp_path, finding()) as app:
        before = app.generation.pool().statuses()[0].endpoint
        await app.takes_over(finding() + weight(5))
        await until(lambda: Finding.running == ["found"])
        assert app.generation.pool().statuses()[0].endpoint is before


async def test_a_discovery_that_is_dropped_ends(tmp_path: Path) -> None:
    async with fake_engine(says()) as engine, reloadable(tmp_path, finding()) as app:
        await app.takes_over(endpoints(engine.port))
        await until(lambda: not Finding.running)
        assert {status.endpoint.name for status in app.generation.pool().statuses()} == {"e0"}


async def test_a_refused_reload_ends_the_discovery_it_had_begun(tmp_path: Path) -> None:
    async with reloadable(tmp_path, finding(name="one")) as app:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            taken = f"transports: {{http: {{port: {other.getsockname()[1]}}}}}\n"
            outcome = await app.reload(finding(name="two") + taken)
        assert (outcome.done, Finding.running) == (False, ["one"])


async def test_a_discovery_that_finds_nothing_in_time_refuses_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.generation.FIRST_LIST", 0.01)
    Finding.gate = asyncio.Event()
    async with reloadable(tmp_path, finding(name="one")) as app:
        outcome = await app.reload(finding(name="two", waits="true"))
        assert (outcome.done, outcome.reasons, Finding.running) == (False, ["no endpoints within 0.01 s"], ["one"])


# -- one after the other, and the end


async def test_two_reloads_at_once_run_one_after_the_other(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    async with reloadable(tmp_path, "") as app:
        app.path.write_text(told("a", waits="true"))
        first = asyncio.create_task(app.reload())
        await until(lambda: "start a" in Telling.diary)
        second = asyncio.create_task(app.reload(told("b")))
        third = asyncio.create_task(app.page("/-/reload", "POST"))
        for _ in range(20):
            await asyncio.sleep(0)
        waits = (second.done(), third.done(), list(Telling.diary))
        Telling.gate.set()
        outcomes = [await first, await second]
        assert waits == (False, False, ["start a"])
        assert [outcome.changed for outcome in outcomes] == [True, True]
        assert await third == (200, "nothing has changed\n")
        await until(lambda: "stop a" in Telling.diary)
        assert Telling.diary == ["start a", "start b", "stop a"]


async def test_a_stop_while_plugins_are_retired_stops_them_as_well(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    async with slow_engine() as (engine, go):
        pool = endpoints(engine.port)
        async with reloadable(tmp_path, pool + told("old")) as app, app.chat() as answer:
            await answer.content.readany()
            await app.takes_over(pool + told("new"))
            stopping = asyncio.create_task(app.process.runner().stop())
            await until(lambda: app.process.http_server().admission.draining)
            go.set()
            await stopping
    assert sorted(Telling.diary) == ["finished old", "start new", "start old", "stop new", "stop old"]


async def test_a_stop_while_requests_of_the_old_plugins_go_on_stops_those_plugins(tmp_path: Path) -> None:
    async with slow_engine() as (engine, _):
        pool = endpoints(engine.port) + "shutdown: {timeout: 10ms}\n"
        async with reloadable(tmp_path, pool + told("old")) as app:
            request = asyncio.create_task(app.served_by("hi"))
            await until(lambda: engine.seen)
            await app.takes_over(pool + told("new"))
            await app.application.process.runner().stop()
            with pytest.raises(aiohttp.ClientError):
                await request
    assert sorted(line for line in Telling.diary if line.startswith("stop")) == ["stop new", "stop old"]


async def test_a_stop_while_a_dropped_plugin_stops_ends_the_others_too(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    async with reloadable(tmp_path, told("a", "b", stops_slowly="true")) as app:
        await app.takes_over("")
        await until(lambda: "stop b" in Telling.diary)
        await app.application.process.runner().stop()
        assert Telling.diary == ["start a", "start b", "stop b", "stop a"]


async def test_a_stop_within_a_reload_leaves_nothing_of_it(tmp_path: Path) -> None:
    Finding.gate = asyncio.Event()
    async with reloadable(tmp_path, told("old")) as app:
        before = app.generation.router().pipeline
        app.path.write_text(
            f"plugins: [{{name: new, type: '{TELLING}'}}, {{name: finding, type: '{FINDING}', parameters: {{waits: true}}}}]\n"
            "dataLayer: {discovery: {pluginRef: finding}}\n"
        )
        app.process.reloader().request()
        await until(lambda: Finding.running)
        await app.application.process.runner().stop()
        assert (Finding.running, app.generation.router().pipeline is before) == ([], True)
    assert Telling.diary == ["start old", "start new", "stop new", "stop old"]


async def test_a_reload_by_the_admin_port_that_a_stop_finds_under_way_takes_nothing_over(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    async with reloadable(tmp_path, told("old")) as app:
        before = app.generation.router().pipeline
        app.path.write_text(told("old", "new", waits="true"))
        post = asyncio.create_task(app.page("/-/reload", "POST"))
        await until(lambda: "start new" in Telling.diary)
        stopping = asyncio.create_task(app.process.runner().stop())
        await asyncio.gather(post, stopping, return_exceptions=True)
        Telling.gate.set()
        assert app.generation.router().pipeline is before
    assert Telling.diary == ["start old", "start old", "start new", "stop new", "stop old", "stop old"]


async def test_after_a_stop_nothing_is_reloaded(tmp_path: Path) -> None:
    async with reloadable(tmp_path, told("old")) as app:
        await app.application.process.runner().stop()
        outcome = await app.reload(told("new"))
        assert (outcome.done, Telling.diary) == (False, ["start old", "stop old"])


async def test_a_reload_that_is_asked_for_while_the_process_starts_comes_after_the_start(tmp_path: Path) -> None:
    Telling.gate = asyncio.Event()
    path = tmp_path / "pointsman.yaml"
    path.write_text(told("a", waits="true"))
    application = Application(load(Sources(("builtin:default", str(path)), FREE_PORTS)))
    runner = application.runner()
    starting = asyncio.create_task(runner.start())
    await until(lambda: "start a" in Telling.diary)
    path.write_text(told("b"))
    application.process.reloader().request()
    reload = asyncio.create_task(application.process.reloader().reload())
    for _ in range(20):
        await asyncio.sleep(0)
    early = list(Telling.diary)
    Telling.gate.set()
    await starting
    await reload
    await until(lambda: "stop a" in Telling.diary)
    await runner.stop()
    assert (early, Telling.diary) == (["start a"], ["start a", "start b", "stop a", "stop b"])
