"""The commands as a user runs them: exit codes and what is printed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest

from app.settings.layers import Sources
from containers.application import check
from tests.support.processes import pointsman, run

FIVE_FAULTS = """\
plugins:
  - type: queue-scorr
  - type: prefix-cache-scorer
    parameters: {matchLenghtWeight: 0.5}
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: max-score-picker}
      - {pluginRef: prefix-cache-scorer, weight: -1}
      - {pluginRef: nobody}
transports: {http: {port: 70000}}
"""


async def test_check_lists_five_faults_each_with_its_place(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(FIVE_FAULTS)
    code, lines = await run("check", "-c", str(bad))
    places = [line.removeprefix(f"{bad}:").split(": ")[0] for line in lines if line.startswith(str(bad))]
    assert (code, places) == (1, ["2:5", "4:18", "10:42", "11:10", "12:21"])


async def test_check_of_a_good_file_is_0() -> None:
    assert await run("check", "-c", "builtin:default", "-c", "builtin:dev") == (0, ["ok: 11 plugins, 1 profile"])


@pytest.mark.parametrize("command", ["check", "show", "serve"])
async def test_a_missing_file_is_2_and_named(command: str) -> None:
    code, lines = await run(command, "-c", "nowhere.yaml")
    assert (code, lines) == (2, ["pointsman: nowhere.yaml: No such file or directory"])


async def test_serve_reports_the_same_errors_as_check(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(FIVE_FAULTS)
    assert await run("serve", "-c", str(bad)) == await run("check", "-c", str(bad))


async def test_show_prints_what_loads_to_the_same_again(tmp_path: Path) -> None:
    code, lines = await run("show")
    again = tmp_path / "again.yaml"
    again.write_text("\n".join(lines))
    assert code == 0
    shown = check(Sources((str(again),))).effective().splitlines()
    assert [line for line in shown if line[0] != "#"] == [line for line in lines if line[0] != "#"]


async def test_show_says_which_layer_set_a_value() -> None:
    _, lines = await run(
        "show", "--origins", "-c", "builtin:default", "-c", "builtin:dev", "--set", "pool.scrape.interval=3s"
    )
    assert "    interval: 3s  # --set pool.scrape.interval" in lines
    assert any(line.strip().startswith("servers: 3  # builtin:dev:") for line in lines)


async def test_a_port_in_use_is_reported_without_a_traceback() -> None:
    ports = ["--port", "0", "--admin-port", "0"]
    async with pointsman("serve", "-c", "builtin:default", "-c", "builtin:dev", *ports) as first:
        port = (await first.says(r"routes http://localhost:(\d+)"))[1]
        code, lines = await run("serve", "--admin-port", "0", "--port", port)
    assert code == 1
    assert "Traceback" not in "\n".join(lines)


async def test_sigterm_lets_a_stream_end_and_exits_with_0() -> None:
    layers = ["-c", "builtin:default", "-c", "builtin:dev"]
    async with pointsman("serve", *layers, "--port", "0", "--admin-port", "0") as router:
        url = (await router.says(r"routes (http://localhost:\d+)"))[1]
        body = {"model": "demo", "stream": True, "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as answer:
            await answer.content.readany()
            router.process.send_signal(signal.SIGTERM)
            rest = await answer.content.read()
        assert rest.endswith(b"data: [DONE]\n\n")
        assert await router.ends() == 0


async def test_a_second_sigterm_ends_at_once() -> None:
    sets = ["--set", "shutdown.delay=1h", "--set", "observability.logging.format=console"]
    async with pointsman("serve", "--port", "0", "--admin-port", "0", *sets) as router:
        await router.says("routes http")
        router.process.send_signal(signal.SIGTERM)
        await router.says("stopping")
        router.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(router.ends(), 10) == 0


async def test_a_simulated_server_whose_port_is_in_use_is_reported_without_a_traceback() -> None:
    async with pointsman("fleet", "--count", "1", "--port", "0") as first:
        port = (await first.says(r"http://127.0.0.1:(\d+)"))[1]
        code, lines = await run("fleet", "--count", "1", "--port", port)
    assert (code, [line for line in lines if "Traceback" in line]) == (1, [])
    assert "can't start" in lines[-1]


async def test_sighup_applies_a_changed_configuration_and_keeps_the_process_running(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("simulation: {servers: 1}\nreload: {watch: false}\n", encoding="utf-8")
    layers = ("-c", "builtin:default", "-c", str(overlay))
    async with pointsman("serve", *layers, "--port", "0", "--admin-port", "0") as router:
        await router.says('"started"')
        router.process.send_signal(signal.SIGHUP)
        await router.says('"unchanged"')
        overlay.write_text("simulation: {servers: 1}\nreload: {watch: false}\nrouting: {producerDeadline: 1s}\n")
        router.process.send_signal(signal.SIGHUP)
        await router.says('"applied"')
        overlay.write_text("bogus: 1\n")
        router.process.send_signal(signal.SIGHUP)
        await router.says("unknown key 'bogus'")
        router.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(router.ends(), 10) == 0


async def test_a_fleet_ignores_sighup_and_says_so() -> None:
    async with pointsman("fleet", "--count", "1", "--port", "0") as fleet:
        url = (await fleet.says(r"(http://127.0.0.1:\d+)"))[1]
        fleet.process.send_signal(signal.SIGHUP)
        await fleet.says("SIGHUP ignored")
        async with aiohttp.ClientSession() as client, client.get(f"{url}/v1/models") as answer:
            assert answer.status == 200


@pytest.mark.parametrize("count", ["0", "-1", "x", "101"])
async def test_an_invalid_number_of_simulated_servers_is_wrong_usage(count: str) -> None:
    code, lines = await run("fleet", f"--count={count}")
    assert (code, "expected a number from 1 to 100" in lines[-1]) == (2, True)


async def test_a_plugin_is_constructed_once_at_the_start_and_once_at_each_reload(tmp_path: Path) -> None:
    heavy, built, path = tmp_path / "heavy.py", tmp_path / "built", tmp_path / "pointsman.yaml"
    heavy.write_text(
        "class Heavy:\n    def __init__(self) -> None:\n"
        f"        with open({str(built)!r}, 'a') as file:\n            file.write('built\\n')\n"
        "    def score(self, request, candidates):\n        return [0.0 for _ in candidates]\n"
    )
    text = f"plugins: [{{name: heavy, type: '{heavy}:Heavy'}}]\nsimulation: {{servers: 1}}\nreload: {{watch: false}}\n"
    path.write_text(text)
    async with pointsman("serve", "-c", str(path), "--port", "0", "--admin-port", "0") as router:
        await router.says('"started"')
        counts = [len(built.read_text().splitlines())]
        path.write_text(f"{text}routing: {{producerDeadline: 1s}}\n")
        router.process.send_signal(signal.SIGHUP)
        await router.says('"applied"')
        counts.append(len(built.read_text().splitlines()))
        router.process.send_signal(signal.SIGTERM)
        assert (await router.ends(), counts) == (0, [1, 2])
