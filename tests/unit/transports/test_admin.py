"""The admin port over loopback."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from app.transports.admin.server import AdminListen, AdminServer, Insight

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

INSIGHT = Insight(
    readiness=lambda: {"started": True, "discovered": True},
    metrics=lambda: b"up 1\n",
    endpoints=lambda: [{"name": "a", "state": "up"}],
    configuration=lambda: "pool: {}\n",
)
NOT_READY = replace(INSIGHT, readiness=lambda: {"started": True, "discovered": False})
LOOPBACK = ("127.0.0.0/8",)


@asynccontextmanager
async def serving(insight: Insight = INSIGHT, allow: Sequence[str] = LOOPBACK) -> AsyncIterator[AdminServer]:
    server = AdminServer(AdminListen("127.0.0.1", 0, allow), insight)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def get(
    path: str, insight: Insight = INSIGHT, allow: Sequence[str] = LOOPBACK, method: str = "GET"
) -> tuple[int, str, str]:
    """Status, content type and text."""
    async with (
        serving(insight, allow) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.request(method, path) as response,
    ):
        return response.status, response.headers["content-type"], await response.text()


async def test_health_is_well_even_if_nothing_is_ready() -> None:
    assert (await get("/healthz", NOT_READY))[::2] == (200, "ok\n")


@pytest.mark.parametrize(
    ("path", "insight", "status", "text"),
    [
        pytest.param("/readyz", INSIGHT, 200, "ready\n", id="ready"),
        pytest.param("/readyz?verbose", INSIGHT, 200, "[+] started\n[+] discovered\nready\n", id="ready and verbose"),
        pytest.param("/readyz", NOT_READY, 503, "[+] started\n[-] discovered\nnot ready\n", id="not ready"),
        pytest.param(
            "/readyz?verbose=1", NOT_READY, 503, "[+] started\n[-] discovered\nnot ready\n", id="not, verbose"
        ),
    ],
)
async def test_readiness_says_which_condition_fails(path: str, insight: Insight, status: int, text: str) -> None:
    assert (await get(path, insight))[::2] == (status, text)


async def test_readiness_is_asked_anew_each_time() -> None:
    conditions = {"discovered": False}
    statuses = []
    async with serving(replace(INSIGHT, readiness=lambda: conditions)) as server, aiohttp.ClientSession() as session:
        for holds in (False, True, False):
            conditions["discovered"] = holds
            async with session.get(f"http://127.0.0.1:{server.port}/readyz") as response:
                statuses.append(response.status)
    assert statuses == [503, 200, 503]


async def test_metrics_are_a_page_of_prometheus() -> None:
    assert await get("/metrics", allow=()) == (200, "text/plain; version=0.0.4; charset=utf-8", "up 1\n")


async def test_endpoints_are_told_as_json() -> None:
    status, kind, text = await get("/debug/endpoints")
    assert (status, kind, json.loads(text)) == (200, "application/json", {"endpoints": [{"name": "a", "state": "up"}]})


async def test_the_configuration_is_told_as_yaml() -> None:
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
async def test_insight_is_only_for_those_allowed(path: str, allow: list[str], status: int) -> None:
    assert (await get(path, allow=allow))[0] == status


# -- reloading


def reloading(text: str, *, done: bool) -> Insight:
    async def reload() -> tuple[str, bool]:
        return text, done

    return replace(INSIGHT, reload=reload)


@pytest.mark.parametrize(
    ("insight", "status", "text"),
    [
        pytest.param(reloading("taken over\n", done=True), 200, "taken over\n", id="taken over"),
        pytest.param(reloading("refused\nwhy\n", done=False), 409, "refused\nwhy\n", id="refused"),
        pytest.param(INSIGHT, 409, "nothing is reloaded here\n", id="nothing to reload"),
    ],
)
async def test_a_reload_is_answered_with_how_it_went(insight: Insight, status: int, text: str) -> None:
    assert (await get("/-/reload", insight, method="POST"))[::2] == (status, text)


@pytest.mark.parametrize("allow", [pytest.param([], id="nobody"), pytest.param(["10.0.0.0/8"], id="another network")])
async def test_a_reload_is_only_for_those_allowed(allow: list[str]) -> None:
    asked: list[str] = []

    async def reload() -> tuple[str, bool]:
        asked.append("reload")
        return "", True

    status, _, text = await get("/-/reload", replace(INSIGHT, reload=reload), allow, "POST")
    assert (status, "transports.admin.allowFrom" in text, asked) == (403, True, [])


async def test_who_may_look_can_change_while_it_serves() -> None:
    statuses = []
    async with serving() as server, aiohttp.ClientSession() as session:
        for allow in (["10.0.0.0/8"], ["127.0.0.1"], []):
            server.allow_from(allow)
            async with session.get(f"http://127.0.0.1:{server.port}/debug/config") as response:
                statuses.append(response.status)
    assert statuses == [403, 200, 403]


@pytest.mark.parametrize(
    ("path", "insight", "text"),
    [
        pytest.param("/readyz", INSIGHT, "ready\n", id="brief"),
        pytest.param(
            "/readyz?verbose", INSIGHT, "[+] started\n[+] discovered\n[!] refused\nwhy\nready\n", id="verbose"
        ),
        pytest.param(
            "/readyz", NOT_READY, "[+] started\n[-] discovered\n[!] refused\nwhy\nnot ready\n", id="not ready"
        ),
    ],
)
async def test_remarks_stand_below_the_conditions_and_change_no_verdict(path: str, insight: Insight, text: str) -> None:
    status, _, shown = await get(path, replace(insight, remarks=lambda: ("[!] refused", "why")))
    assert (status, shown) == (503 if insight is NOT_READY else 200, text)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_and_metrics_are_for_everybody(path: str) -> None:
    assert (await get(path, allow=()))[0] == 200


async def test_a_refusal_says_which_setting_to_look_at() -> None:
    assert "transports.admin.allowFrom" in (await get("/debug/config", allow=()))[2]


@pytest.mark.parametrize(
    ("remote", "allow", "may"),
    [
        pytest.param("::ffff:127.0.0.1", ["127.0.0.0/8"], True, id="IPv4 mapped into IPv6"),
        pytest.param("::ffff:10.0.0.1", ["127.0.0.0/8"], False, id="another one mapped into IPv6"),
        pytest.param("::1", ["::1"], True, id="IPv6"),
        pytest.param("fd00::5", ["fd00::/8"], True, id="network of IPv6"),
        pytest.param("", ["0.0.0.0/0", "::/0"], False, id="no address"),
        pytest.param("/run/socket", ["0.0.0.0/0", "::/0"], False, id="a path"),
    ],
)
def test_an_address_is_looked_up_in_the_networks(remote: str, allow: list[str], may: bool) -> None:
    assert AdminServer(AdminListen("127.0.0.1", 0, allow), INSIGHT)._may_look(remote) is may


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        pytest.param("/", "GET", 404, id="root"),
        pytest.param("/debug", "GET", 404, id="debug alone"),
        pytest.param("/metrics", "POST", 405, id="post"),
        pytest.param("/-/reload", "GET", 405, id="a reload by looking"),
    ],
)
async def test_anything_else_is_not_there(path: str, method: str, status: int) -> None:
    assert (await get(path, method=method))[0] == status


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving() as server:
        other = AdminServer(AdminListen("127.0.0.1", server.port, ()), INSIGHT)
        with pytest.raises(OSError):
            await other.start()
        await other.stop()


def test_a_network_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        AdminServer(AdminListen("127.0.0.1", 0, ["everybody"]), INSIGHT)


async def test_a_server_that_was_not_started_can_be_stopped() -> None:
    server: Any = AdminServer(AdminListen("127.0.0.1", 0, ()), INSIGHT)
    await server.stop()
    assert server.port == 0
