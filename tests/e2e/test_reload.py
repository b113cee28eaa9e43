"""Reloads of a process of its own: by a signal, by a file, and in the middle of its end."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import aiohttp

from tests.support.processes import Process, pointsman

LOGS = ["--set", "observability.logging.format=json", "--port", "0", "--admin-port", "0"]

SLOW = '''
import asyncio
from pathlib import Path

class Slow:
    """Takes its time to start, and says so."""

    async def start(self):
        Path(__file__).with_suffix(".begun").touch()
        await asyncio.sleep(3600)

    async def stop(self):
        Path(__file__).with_suffix(".stopped").touch()

    def score(self, request, candidates):
        return [0 for _ in candidates]
'''


def overlay(folder: Path, text: str) -> Path:
    path = folder / "overlay.yaml"
    path.write_text(text)
    return path


async def started(router: Process) -> None:
    await router.says('"event": "started"')


def results(router: Process) -> list[str]:
    """How the reloads went, as the log tells."""
    lines = [json.loads(line) for line in router.lines if line.startswith("{")]
    told = [line for line in lines if line.get("event", "").startswith("configuration ")]
    return [line.get("result", "refused") for line in told if "warning" not in line]


async def test_a_hangup_reloads_and_an_unchanged_file_changes_nothing(tmp_path: Path) -> None:
    path = overlay(tmp_path, "reload: {watch: false}\n")
    async with pointsman("serve", "-c", "builtin:default", "-c", str(path), *LOGS) as router:
        await started(router)
        for text, result in (
            ("reload: {watch: false}\n", "unchanged"),
            ("reload: {watch: false}\nrouting: {producerDeadline: 7s}\n", "applied"),
            ("plugins: [\n", "configuration reload failed"),
            ("reload: {watch: false}\n", "applied"),
        ):
            count = len(results(router))
            path.write_text(text)
            router.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(20):
                while len(results(router)) == count:
                    await asyncio.sleep(0.01)
            assert result in router.lines[-1]
        assert results(router) == ["unchanged", "applied", "refused", "applied"]


async def test_a_file_that_is_replaced_is_taken_over_by_itself_and_a_hangup_adds_nothing(tmp_path: Path) -> None:
    path = overlay(tmp_path, "reload: {settle: 50ms}\n")
    async with pointsman("serve", "-c", "builtin:default", "-c", str(path), *LOGS) as router:
        await started(router)
        new = tmp_path / "new"
        new.write_text("reload: {settle: 50ms}\nrouting: {producerDeadline: 7s}\n")
        new.rename(path)
        await router.says('"result": "applied"')
        router.process.send_signal(signal.SIGHUP)
        await router.says('"result": "unchanged"')
        assert results(router) == ["applied", "unchanged"]
        router.process.send_signal(signal.SIGTERM)
        assert await router.ends() == 0


async def test_sigterm_within_a_reload_abandons_it_and_ends_cleanly(tmp_path: Path) -> None:
    path, slow = overlay(tmp_path, ""), tmp_path / "slow.py"
    slow.write_text(SLOW)
    async with pointsman("serve", "-c", "builtin:default", "-c", str(path), *LOGS) as router:
        await started(router)
        path.write_text(f"plugins: [{{type: '{slow}:Slow'}}]\n")
        router.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(20):
            while not slow.with_suffix(".begun").exists():
                await asyncio.sleep(0.01)
        router.process.send_signal(signal.SIGTERM)
        assert await router.ends() == 0
    assert slow.with_suffix(".stopped").exists()
    assert not [line for line in router.lines if "Traceback" in line or "never" in line]


async def test_a_stream_goes_on_over_a_reload_and_ends_before_the_process(tmp_path: Path) -> None:
    path = overlay(tmp_path, "reload: {watch: false}\n")
    layers = ["-c", "builtin:default", "-c", "builtin:dev", "-c", str(path), "--port", "0", "--admin-port", "0"]
    async with pointsman("serve", *layers) as router:
        url = (await router.says(r"routes (http://localhost:\d+)"))[1]
        body = {"model": "demo", "stream": True, "max_tokens": 30, "messages": [{"role": "user", "content": "hi"}]}
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as answer:
            await answer.content.readany()
            path.write_text(
                "reload: {watch: false}\nschedulingProfiles: [{name: default, plugins: [{pluginRef: expected-ttft-scorer, weight: 9}]}]\n"
            )
            router.process.send_signal(signal.SIGHUP)
            await router.says("configuration reloaded")
            router.process.send_signal(signal.SIGTERM)
            rest = await answer.content.read()
        assert rest.endswith(b"data: [DONE]\n\n")
        assert await router.ends() == 0
