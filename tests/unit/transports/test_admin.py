"""The admin port over loopback."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from app.domain.metrics import EndpointMetrics
from app.domain.named import Named
from app.fleet.pool import EndpointPool
from app.routing.in_flight import InFlightRequests
from app.transports.admin.endpoints import EndpointsPage
from app.transports.admin.server import AdminPages, AdminServer, ProcessPages, _is_allowed
from app.transports.listening import Address, Listening, OwnPorts, Sockets
from pointsman.testing import FakeClock, make_endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

PROCESS = ProcessPages(readiness=lambda: {"started": True, "discovered": True}, metrics=lambda: b"up 1\n")
NOT_READY = replace(PROCESS, readiness=lambda: {"started": True, "discovered": False})
LOOPBACK = ("127.0.0.0/8",)


def pages(allow: Sequence[str] = LOOPBACK, configuration: str = "pool: {}\n") -> AdminPages:
    """What a configuration shows."""
    return AdminPages(allow, lambda: [{"name": "a", "state": "up"}], lambda: configuration)


@asynccontextmanager
async def session_with(
    process: ProcessPages = PROCESS, current: Callable[[], AdminPages] = pages
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server."""
    server, sockets = AdminServer(process, current), Sockets(OwnPorts())
    listening = [Listening("admin", Address("127.0.0.1", 0), server.connection)]
    await server.start()
    await sockets.bind(listening)
    await sockets.serve(listening)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{sockets.port('admin')}") as session:
            yield session
    finally:
        await sockets.serve([])
        await server.stop()


async def get(
    path: str, process: ProcessPages = PROCESS, allow: Sequence[str] = LOOPBACK, method: str = "GET"
) -> tuple[int, str, str]:
    """Status, content type and text."""
    async with session_with(process, lambda: pages(allow)) as session, session.request(method, path) as response:
        return response.status, response.headers["content-type"], await response.text()


async def test_the_process_is_healthy_even_if_it_is_not_ready() -> None:
    assert (await get("/healthz", NOT_READY))[::2] == (200, "ok\n")


@pytest.mark.parametrize(
    ("path", "process", "status", "text"),
    [
        pytest.param("/readyz", PROCESS, 200, "ready\n", id="ready"),
        pytest.param("/readyz?verbose", PROCESS, 200, "[+] started\n[+] discovered\nready\n", id="ready and verbose"),
        pytest.param("/readyz", NOT_READY, 503, "[+] started\n[-] discovered\nnot ready\n", id="not ready"),
        pytest.param(
            "/readyz?verbose=1", NOT_READY, 503, "[+] started\n[-] discovered\nnot ready\n", id="not, verbose"
        ),
    ],
)
async def test_readiness_says_which_condition_fails(path: str, process: ProcessPages, status: int, text: str) -> None:
    assert (await get(path, process))[::2] == (status, text)


async def test_readiness_is_checked_for_each_request() -> None:
    conditions = {"discovered": False}
    statuses = []
    async with session_with(replace(PROCESS, readiness=lambda: conditions)) as session:
        for holds in (False, True, False):
            conditions["discovered"] = holds
            async with session.get("/readyz") as response:
                statuses.append(response.status)
    assert statuses == [503, 200, 503]


async def test_metrics_are_a_prometheus_page() -> None:
    assert await get("/metrics", allow=()) == (200, "text/plain; version=0.0.4; charset=utf-8", "up 1\n")


async def test_endpoints_are_shown_as_json() -> None:
    status, kind, text = await get("/debug/endpoints")
    assert (status, kind, json.loads(text)) == (200, "application/json", {"endpoints": [{"name": "a", "state": "up"}]})


async def test_the_configuration_is_shown_as_yaml() -> None:
    status, kind, text = await get("/debug/config")
    assert (status, kind.split(";")[0], text) == (200, "application/yaml", "pool: {}\n")


@pytest.mark.parametrize("path", ["/debug/endpoints", "/debug/config"])
@pytest.mark.parametrize(
    ("allow", "status"),
    [
        pytest.param(["127.0.0.1"], 200, id="just this address"),
        pytest.param(["127.0.0.1/8"], 200, id="network with host bits"),
        pytest.param(["10.0.0.0/8", "127.0.0.0/8"], 200, id="one of two networks"),
        pytest.param(["0.0.0.0/0"], 200, id="everybody"),
        pytest.param([], 403, id="nobody"),
        pytest.param(["10.0.0.0/8"], 403, id="another network"),
        pytest.param(["::1/128"], 403, id="only IPv6"),
    ],
)
async def test_debug_pages_are_only_for_the_networks_allowed(path: str, allow: list[str], status: int) -> None:
    assert (await get(path, allow=allow))[0] == status


# -- reloading


def reloading(text: str, *, done: bool) -> ProcessPages:
    async def reload() -> tuple[str, bool]:
        return text, done

    return replace(PROCESS, reload=reload)


@pytest.mark.parametrize(
    ("process", "status", "text"),
    [
        pytest.param(reloading("applied\n", done=True), 200, "applied\n", id="applied"),
        pytest.param(reloading("refused\nwhy\n", done=False), 409, "refused\nwhy\n", id="refused"),
        pytest.param(PROCESS, 409, "nothing is reloaded here\n", id="nothing to reload"),
    ],
)
async def test_a_reload_responds_with_its_result(process: ProcessPages, status: int, text: str) -> None:
    assert (await get("/-/reload", process, method="POST"))[::2] == (status, text)


@pytest.mark.parametrize("allow", [pytest.param([], id="nobody"), pytest.param(["10.0.0.0/8"], id="another network")])
async def test_a_reload_is_only_for_the_networks_allowed(allow: list[str]) -> None:
    asked: list[str] = []

    async def reload() -> tuple[str, bool]:
        asked.append("reload")
        return "", True

    status, _, text = await get("/-/reload", replace(PROCESS, reload=reload), allow, "POST")
    assert (status, "transports.admin.allowFrom" in text, asked) == (403, True, [])


async def test_pages_are_those_of_the_current_configuration() -> None:
    current = iter([pages(["10.0.0.0/8"]), pages(["127.0.0.1"], "one\n"), pages(["127.0.0.0/8"], "two\n"), pages([])])
    now, found = next(current), []
    async with session_with(current=lambda: now) as session:
        while now is not None:
            async with session.get("/debug/config") as response:
                found.append(await response.text() if response.status == 200 else response.status)
            now = next(current, None)  # type: ignore[assignment]
    assert found == [403, "one\n", "two\n", 403]


@pytest.mark.parametrize(
    ("path", "process", "text"),
    [
        pytest.param("/readyz", PROCESS, "ready\n", id="brief"),
        pytest.param(
            "/readyz?verbose", PROCESS, "[+] started\n[+] discovered\n[!] refused\nwhy\nready\n", id="verbose"
        ),
        pytest.param(
            "/readyz", NOT_READY, "[+] started\n[-] discovered\n[!] refused\nwhy\nnot ready\n", id="not ready"
        ),
    ],
)
async def test_remarks_follow_the_conditions_and_do_not_change_the_status(
    path: str, process: ProcessPages, text: str
) -> None:
    status, _, shown = await get(path, replace(process, remarks=lambda: ("[!] refused", "why")))
    assert (status, shown) == (503 if process is NOT_READY else 200, text)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_and_metrics_are_open_to_all(path: str) -> None:
    assert (await get(path, allow=()))[0] == 200


async def test_a_rejected_client_learns_which_setting_to_look_at() -> None:
    assert "transports.admin.allowFrom" in (await get("/debug/config", allow=()))[2]


@pytest.mark.parametrize(
    ("remote", "allow", "allowed"),
    [
        pytest.param("::ffff:127.0.0.1", ["127.0.0.0/8"], True, id="IPv4 mapped into IPv6"),
        pytest.param("::ffff:10.0.0.1", ["127.0.0.0/8"], False, id="another one mapped into IPv6"),
        pytest.param("::1", ["::1"], True, id="IPv6"),
        pytest.param("fd00::5", ["fd00::/8"], True, id="network of IPv6"),
        pytest.param("", ["0.0.0.0/0", "::/0"], False, id="no address"),
        pytest.param("/run/socket", ["0.0.0.0/0", "::/0"], False, id="a path"),
    ],
)
def test_an_address_is_looked_up_in_the_networks(remote: str, allow: list[str], allowed: bool) -> None:
    assert _is_allowed(remote, allow) is allowed


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        pytest.param("/", "GET", 404, id="root"),
        pytest.param("/debug", "GET", 404, id="debug alone"),
        pytest.param("/metrics", "POST", 405, id="post"),
        pytest.param("/-/reload", "GET", 405, id="a reload with GET"),
    ],
)
async def test_anything_else_is_not_there(path: str, method: str, status: int) -> None:
    assert (await get(path, method=method))[0] == status


async def test_a_server_that_was_not_started_can_be_stopped() -> None:
    await AdminServer(PROCESS, pages).stop()


# -- the endpoints


def shown(*names: str, clock: FakeClock, **what: Any) -> list[dict[str, Any]]:
    """The page on a pool whose metrics are stale after five seconds, after a list of calls: `name=(method, ...)`."""
    in_flight = InFlightRequests()
    in_flight.enter(names[0])
    pool = EndpointPool(clock=clock, in_flight=in_flight.count, stale_after=5.0)
    pool.replace_all([make_endpoint(name, labels={"zone": "x"}) for name in names])
    for method, *args in what.get("calls", ()):
        endpoint = pool.get(names[0])
        getattr(pool, method)(endpoint, *args)
    clock.advance(what.get("later", 0.0))
    return [dict(row) for row in EndpointsPage(pool, in_flight, clock)()]


def test_an_endpoint_that_nothing_is_known_of(clock: FakeClock) -> None:
    row = shown("a", clock=clock, later=1.5)[0]
    endpoint = make_endpoint("a")
    assert row == {
        "name": "a",
        "address": endpoint.authority,
        "labels": {"zone": "x"},
        "state": "up",
        "since_seconds": 1.5,
        "reason": "",
        "metrics": "unknown",
        "metrics_age_seconds": None,
        "engine": None,
        "waiting": None,
        "running": None,
        "kv_cache_usage": None,
        "in_flight": 1,
        "models": None,
        "plugins": {},
    }


class Inspector:
    """A plugin that knows something about the endpoint a, and fails for b."""

    def inspect(self, endpoint: str) -> dict[str, object]:
        if endpoint == "b":
            raise LookupError(endpoint)
        return {"known": endpoint} if endpoint == "a" else {}


def test_plugins_show_what_they_know_of_an_endpoint(clock: FakeClock) -> None:
    in_flight = InFlightRequests()
    pool = EndpointPool(clock=clock, in_flight=in_flight.count)
    pool.replace_all([make_endpoint(name) for name in "abc"])
    plugins = [Named("mine", Inspector()), Named("other", object())]
    rows = EndpointsPage(pool, in_flight, clock, plugins)()
    assert [row["plugins"] for row in rows] == [{"mine": {"known": "a"}}, {"mine": {"error": "LookupError: b"}}, {}]


LOAD = EndpointMetrics(3.0, 2.0, 0.25, engine="vllm")


@pytest.mark.parametrize(
    ("calls", "later", "expected"),
    [
        pytest.param(
            [("record", LOAD)],
            4.9,
            {
                "metrics": "fresh",
                "metrics_age_seconds": 4.9,
                "engine": "vllm",
                "waiting": 3.0,
                "running": 2.0,
                "kv_cache_usage": 0.25,
            },
            id="fresh",
        ),
        pytest.param(
            [("record", LOAD)], 5.0, {"metrics": "unknown", "metrics_age_seconds": 5.0, "waiting": 3.0}, id="stale"
        ),
        pytest.param([("mark_down", "refused")], 2.0, {"state": "down", "reason": "refused"}, id="down"),
        pytest.param([("record_models", frozenset({"b", "a"}))], 0.0, {"models": ["a", "b"]}, id="models"),
        pytest.param([("record_models", frozenset())], 0.0, {"models": []}, id="no model"),
    ],
)
def test_what_is_known_of_an_endpoint_is_shown(
    calls: list[Any], later: float, expected: dict[str, Any], clock: FakeClock
) -> None:
    row, other = shown("a", "b", clock=clock, calls=calls, later=later)
    assert {key: row[key] for key in expected} == expected
    assert (other["name"], other["state"], other["metrics"], other["in_flight"]) == ("b", "up", "unknown", 0)


async def test_the_page_of_endpoints_is_json(clock: FakeClock) -> None:
    rows = shown("a", clock=clock, calls=[("record", LOAD)])
    async with session_with(current=lambda: replace(pages(), endpoints=lambda: rows)) as session:
        async with session.get("/debug/endpoints") as response:
            assert await response.json() == {"endpoints": rows}
