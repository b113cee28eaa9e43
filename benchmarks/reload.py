"""Reloads a router under load, and counts the requests that failed.

    .venv/bin/python benchmarks/reload.py [--reloads 50] [--clients 8]

Starts three simulated model servers and a router as processes of their own, and sends chat requests from several
clients while the configuration is rewritten again and again, each time with another weight. Each version is waited for
until it holds; every other one is broken first, which must change nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

BODY = {"model": "demo", "max_tokens": 4, "messages": [{"role": "user", "content": "Which track is free? " * 20}]}
POINTSMAN = str(Path(sys.executable).with_name("pointsman"))


def free_port(count: int = 1) -> int:
    """The first of `count` free ports in a row, as far as can be told."""
    while True:
        with contextlib.ExitStack() as probes:
            first = 0
            try:
                for number in range(count):
                    probe = probes.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", first + number if first else 0))
                    first = first or probe.getsockname()[1]
            except (OSError, OverflowError):
                continue
            return first


def overlay(weight: int, fleet: int) -> str:
    """The configuration of one reload."""
    endpoints = "\n".join(f"    - {{name: e{n}, address: 127.0.0.1, port: {fleet + n}}}" for n in range(3))
    return (
        "observability: {logging: {level: error}}\nreload: {settle: 50ms}\n"
        f"pool:\n  endpoints:\n{endpoints}\n"
        f"schedulingProfiles: [{{name: default, plugins: [{{pluginRef: expected-ttft-scorer, weight: {weight}}}]}}]\n"
    )


@contextlib.asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[None]:
    """A command that runs as long as the block."""
    running = await asyncio.create_subprocess_exec(POINTSMAN, *arguments, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield
    finally:
        running.terminate()
        await running.wait()


async def client(url: str, session: aiohttp.ClientSession, results: Counter[str], done: asyncio.Event) -> None:
    """Sends one request after the other."""
    while not done.is_set():
        try:
            async with session.post(url, json=BODY) as answer:
                await answer.read()
                results[str(answer.status)] += 1
        except aiohttp.ClientError as error:
            results[type(error).__name__] += 1


async def reloads(count: int, path: Path, fleet: int, admin: str, session: aiohttp.ClientSession) -> float:
    """Seconds from the writing of a version to its taking over, in the mean."""
    took = 0.0
    for number in range(count):
        if number % 2:
            path.write_text("schedulingProfiles: [{nam: broken}]\n", encoding="utf-8")
            async with session.post(f"{admin}/-/reload") as answer:
                assert answer.status == 409, "a broken configuration was applied"
        began = time.monotonic()
        new = path.with_suffix(".new")
        new.write_text(overlay(number + 1, fleet), encoding="utf-8")
        new.replace(path)
        while True:
            async with session.get(f"{admin}/debug/config") as answer:
                if f"weight: {number + 1}.0" in await answer.text():
                    break
            await asyncio.sleep(0.02)
        took += time.monotonic() - began
    return took / count


async def main(count: int, clients: int) -> None:
    """Prints what happened."""
    fleet, port, admin = free_port(3), free_port(), free_port()
    results: Counter[str] = Counter()
    done = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "overlay.yaml")
        path.write_text(overlay(1, fleet), encoding="utf-8")
        serve = ("serve", "-c", "builtin:default", "-c", str(path), "--port", str(port), "--admin-port", str(admin))
        async with (
            process("fleet", "--port", str(fleet), "--decode-rate", "400"),
            process(*serve),
            aiohttp.ClientSession() as session,
        ):
            await until_ready(f"http://127.0.0.1:{admin}/readyz", session)
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            load = [asyncio.create_task(client(url, session, results, done)) for _ in range(clients)]
            mean = await reloads(count, path, fleet, f"http://127.0.0.1:{admin}", session)
            done.set()
            await asyncio.gather(*load)
    failed = sum(results.values()) - results["200"]
    print(f"{count} reloads, {count // 2} refused between them; {sum(results.values())} requests, {failed} failed")
    print(f"a version held {mean * 1000:.0f} ms after it was written, in the mean; answers: {dict(results)}")
    sys.exit(bool(failed))


async def until_ready(url: str, session: aiohttp.ClientSession) -> None:
    """Waits for the router to be ready."""
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(url) as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=50)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.reloads, arguments.clients))
