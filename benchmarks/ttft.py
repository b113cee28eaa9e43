"""Time to first token, live: a trace through real sockets, a real router and simulated model servers.

    .venv/bin/python benchmarks/ttft.py [--trace FILE] [--cut 400] [--load 0.8] [--speed 4]

For each configuration, and for engines that send the heads of streams at accept and with the first token, it starts the
servers and the router as processes of their own and sends the trace's requests as streams. Engines, arrivals and
scrapes run `--speed` times as fast as in `pointsman replay`, and times are multiplied by it, so that they compare.
Responses are cut to a few tokens: what is measured is the way to the first of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from reload import POINTSMAN, free_port

from app.replay import shaping
from app.replay.formats import read_trace
from app.replay.results import quantile
from app.replay.synthetic import Synthetic, make_trace
from app.replay.trace import Segment, TraceRequest

ENDPOINTS = 8
PREFILL_RATE = 6400.0
DECODE_RATE = 40.0
OUTPUT_TOKENS = 16
OLDER = Path(__file__).parents[1] / "config" / "examples" / "queue-kv-prefix.yaml"
WORDS = "every train takes its own track while points are set by hand at night a lamp shows which way they lie "
SYNTHETIC = Synthetic(requests=600, prefix_tokens=4096, prompt_tokens=4096)
READY = 60.0
"""Seconds for the servers and the router to start."""
LIMIT = 300.0
"""Seconds after which a request has failed."""


@dataclass(frozen=True)
class Measured:
    """One run. Times are in seconds of the trace."""

    ttfts: list[float]
    failed: Counter[str]
    """Requests without content, by the reason."""
    reported: float
    """Mean time to first token by the router's own metric."""


def text_of(segment: Segment) -> str:
    """Four bytes per token, begun by what identifies the segment."""
    size = 4 * segment.tokens
    return (f"{segment.content} " + WORDS * (size // len(WORDS) + 1))[:size]


async def send(session: aiohttp.ClientSession, url: str, request: TraceRequest) -> float | str:
    """Seconds until the first content of the response, or why there was none."""
    prompt = "".join(map(text_of, request.prompt))
    body = {"model": "demo", "stream": True, "max_tokens": min(request.output_tokens, OUTPUT_TOKENS), "prompt": prompt}
    begun = time.perf_counter()
    first = None
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            if response.status != 200:
                return f"{response.status} {await response.text()}"
            async for line in response.content:
                if first is None and line.startswith(b"data: {"):
                    first = time.perf_counter() - begun
    except (aiohttp.ClientError, TimeoutError) as error:
        return repr(error)
    return "no content" if first is None else first


@contextlib.asynccontextmanager
async def process(*arguments: str, stdout: int = DEVNULL) -> AsyncIterator[Process]:
    """A command that runs as long as the block. What it logs goes to our standard error."""
    running = await asyncio.create_subprocess_exec(POINTSMAN, *arguments, stdout=stdout)
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.terminate()
        await running.wait()


async def ports_of(fleet: Process) -> list[int]:
    """The ports that the model servers print once they serve. Raises `RuntimeError` if they don't, `TimeoutError`."""
    assert fleet.stdout is not None
    ports = []
    async with asyncio.timeout(READY):
        for _ in range(ENDPOINTS):
            found = re.search(rb":(\d+)$", (await fleet.stdout.readline()).rstrip())
            if found is None:
                raise RuntimeError("the simulated model servers did not start")
            ports.append(int(found[1]))
    return ports


async def ready(session: aiohttp.ClientSession, admin: str, router: Process) -> None:
    """Returns when the router has the metrics of all endpoints. Raises `RuntimeError` if it exits, `TimeoutError`."""
    async with asyncio.timeout(READY):
        while True:
            if router.returncode is not None:
                raise RuntimeError(f"the router exited with code {router.returncode}")
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{admin}/debug/endpoints") as response:
                    endpoints = (await response.json())["endpoints"]
                    if all(one["metrics"] == "fresh" for one in endpoints):
                        return
            await asyncio.sleep(0.1)


def overlay(ports: Sequence[int], speed: float) -> str:
    """The endpoints, scraped once per second of the trace."""
    endpoints = "\n".join(f"    - {{name: e{n}, address: 127.0.0.1, port: {port}}}" for n, port in enumerate(ports))
    return (
        "observability: {logging: {level: error}}\n"
        f"pool:\n  scrape: {{interval: {1000 / speed:.0f}ms}}\n  endpoints:\n{endpoints}\n"
    )


async def measure(requests: Sequence[TraceRequest], layers: Sequence[str], speed: float, *, early: bool) -> Measured:
    """Sends all requests at their times, and waits for the last response."""
    rates = ("--prefill-rate", str(PREFILL_RATE * speed), "--decode-rate", str(DECODE_RATE * speed))
    sizes = ("--max-num-seqs", "256", "--num-gpu-blocks", "32768", *(["--early-heads"] if early else []))
    async with contextlib.AsyncExitStack() as stack:
        engines = ("fleet", "--count", str(ENDPOINTS), "--port", "0", *sizes, *rates)
        ports = await ports_of(await stack.enter_async_context(process(*engines, stdout=PIPE)))
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "overlay.yaml")
        path.write_text(overlay(ports, speed), encoding="utf-8")
        files = [argument for layer in (*layers, str(path)) for argument in ("-c", layer)]
        port = free_port(2)
        serve = ("serve", *files, "--port", str(port), "--admin-port", str(port + 1))
        router = await stack.enter_async_context(process(*serve))
        connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=LIMIT)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout, connector=connector))
        await ready(session, f"http://127.0.0.1:{port + 1}", router)
        found = await replay(session, f"http://127.0.0.1:{port}", requests, speed)
        async with session.get(f"http://127.0.0.1:{port + 1}/metrics") as response:
            reported = mean_of(await response.text(), "llm_d_epp_request_ttft_seconds")
    ttfts = [one * speed for one in found if isinstance(one, float)]
    return Measured(sorted(ttfts), Counter(one for one in found if isinstance(one, str)), reported * speed)


async def replay(
    session: aiohttp.ClientSession, url: str, requests: Sequence[TraceRequest], speed: float
) -> list[float | str]:
    """What `send` returned for each request."""
    begun = time.perf_counter()
    tasks = []
    for request in requests:
        await asyncio.sleep(max(begun + request.arrival / speed - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(send(session, url, request)))
    return await asyncio.gather(*tasks)


def mean_of(page: str, name: str) -> float:
    """The mean of a histogram over all its labels."""
    sums = [
        sum(map(float, re.findall(rf"^{name}_{what}{{.*}} (\S+)$", page, re.MULTILINE))) for what in ("sum", "count")
    ]
    return sums[0] / sums[1] if sums[1] else 0.0


def row(heads: str, name: str, found: Measured, older: float) -> str:
    """A row of the table; `older` is the mean of the older profile."""
    if not found.ttfts:
        return f"| {heads} | {name} | | | | | {found.failed.total()} | | |"
    mean = statistics.fmean(found.ttfts)
    times = (mean, *(quantile(found.ttfts, share) for share in (0.5, 0.9, 0.99)))
    shown = " | ".join(f"{one:.2f}" for one in times)
    return f"| {heads} | {name} | {shown} | {found.failed.total()} | {found.reported:.2f} | {mean / older:.2f} |"


async def main(arguments: argparse.Namespace) -> None:
    """Prints the table. SIGTERM stops the processes, as SIGINT does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    requests = make_trace(SYNTHETIC, seed=0) if arguments.trace is None else read_trace(arguments.trace)
    if arguments.trace is not None:
        requests = shaping.cut(requests, arguments.cut)
    requests = shaping.at_load(requests, arguments.load, ENDPOINTS * PREFILL_RATE)
    seconds = requests[-1].arrival / arguments.speed
    print(
        f"{len(requests)} requests at load {arguments.load:g}, {len(requests) / seconds:.1f} per second of the clock\n"
    )
    print("| heads | configuration | mean | p50 | p90 | p99 | failed | mean by the router | of queue-kv-prefix |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for early in (False, True):
        older = await measure(requests, [str(OLDER)], arguments.speed, early=early)
        default = await measure(requests, ["builtin:default"], arguments.speed, early=early)
        heads = "at accept" if early else "with the first token"
        mean = statistics.fmean(older.ttfts) if older.ttfts else float("nan")
        print(row(heads, "default", default, mean))
        print(row(heads, OLDER.stem, older, mean), flush=True)
        for reason, count in (default.failed + older.failed).items():
            print(f"{count} failed: {reason}", file=sys.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, help="in Mooncake's format (default: a synthetic one)")
    parser.add_argument("--cut", type=float, default=400.0, help="seconds of the trace (default: 400)")
    parser.add_argument("--load", type=float, default=0.8, help="as for `pointsman replay` (default: 0.8)")
    parser.add_argument("--speed", type=float, default=4.0, help="how many times as fast it runs (default: 4)")
    try:
        asyncio.run(main(parser.parse_args()))
    except asyncio.CancelledError:
        sys.exit(128 + signal.SIGTERM)
