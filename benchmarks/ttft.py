"""Time to first token, live: a trace through real sockets, a real router and simulated model servers.

    .venv/bin/python benchmarks/ttft.py --trace TRACE [--cut 400] [--load 0.8] [--speed 4]

For each configuration, and for engines that send the heads of streams at accept and with the first token, it starts the
servers and the router as processes of their own and sends the trace's requests as streams. Everything runs `--speed`
times as fast as the engines of `pointsman replay` do, and times are multiplied by it, so that they compare. Responses
are cut to a few tokens: what is measured is the way to the first of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from reload import free_port, process

from app.replay import shaping
from app.replay.formats import read_trace
from app.replay.results import quantile
from app.replay.trace import Segment, TraceRequest

ENDPOINTS = 8
PREFILL_RATE = 6400.0
DECODE_RATE = 40.0
OUTPUT_TOKENS = 16
OLDER = Path(__file__).parents[1] / "config" / "examples" / "queue-kv-prefix.yaml"
WORDS = "every train takes its own track while points are set by hand at night a lamp shows which way they lie "
READY = 60.0


@dataclass(frozen=True)
class Measured:
    """One run. Times are in seconds of the trace."""

    ttfts: list[float]
    failed: int
    reported: float
    """Mean time to first token by the router's own metric."""


def text_of(segment: Segment) -> str:
    """Four bytes per token, begun by what identifies the segment."""
    size = 4 * segment.tokens
    return (f"{segment.content} " + WORDS * (size // len(WORDS) + 1))[:size]


async def send(session: aiohttp.ClientSession, url: str, request: TraceRequest) -> float | None:
    """Seconds until the first content of the response; None if it failed."""
    prompt = "".join(map(text_of, request.prompt))
    body = {"model": "demo", "stream": True, "max_tokens": min(request.output_tokens, OUTPUT_TOKENS), "prompt": prompt}
    begun = time.perf_counter()
    first = None
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            async for line in response.content:
                if first is None and response.status == 200 and line.startswith(b"data: {"):
                    first = time.perf_counter() - begun
    except aiohttp.ClientError:
        return None
    return first


async def ready(session: aiohttp.ClientSession, admin: str) -> None:
    """Returns when the router has the metrics of all endpoints. Raises `TimeoutError`."""
    async with asyncio.timeout(READY):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{admin}/debug/endpoints") as response:
                    endpoints = (await response.json())["endpoints"]
                    if all(one["metrics"] == "fresh" for one in endpoints):
                        return
            await asyncio.sleep(0.1)


async def measure(requests: Sequence[TraceRequest], layers: Sequence[str], speed: float, *, early: bool) -> Measured:
    """Sends all requests at their times, and waits for the last response."""
    fleet, port = free_port(ENDPOINTS), free_port(2)
    endpoints = "\n".join(f"    - {{name: e{n}, address: 127.0.0.1, port: {fleet + n}}}" for n in range(ENDPOINTS))
    overlay = f"observability: {{logging: {{level: error}}}}\npool:\n  endpoints:\n{endpoints}\n"
    rates = ("--prefill-rate", str(PREFILL_RATE * speed), "--decode-rate", str(DECODE_RATE * speed))
    sizes = ("--max-num-seqs", "256", "--num-gpu-blocks", "32768")
    engines = ("fleet", "--count", str(ENDPOINTS), "--port", str(fleet), *sizes, *rates)
    files = [argument for layer in layers for argument in ("-c", layer)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(overlay)
        file.flush()
        serve = ("serve", *files, "-c", file.name, "--port", str(port), "--admin-port", str(port + 1))
        async with process(*engines, *(["--early-heads"] if early else [])), process(*serve):
            timeout = aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
                await ready(session, f"http://127.0.0.1:{port + 1}")
                found = await replay(session, f"http://127.0.0.1:{port}", requests, speed)
                async with session.get(f"http://127.0.0.1:{port + 1}/metrics") as response:
                    reported = mean_of(await response.text(), "llm_d_epp_request_ttft_seconds")
    ttfts = [one * speed for one in found if one is not None]
    return Measured(sorted(ttfts), found.count(None), reported * speed)


async def replay(
    session: aiohttp.ClientSession, url: str, requests: Sequence[TraceRequest], speed: float
) -> list[float | None]:
    """The time to first token of each request."""
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


async def main(arguments: argparse.Namespace) -> None:
    """Prints the table."""
    requests = shaping.cut(read_trace(arguments.trace), arguments.cut)
    requests = shaping.at_load(requests, arguments.load, ENDPOINTS * PREFILL_RATE)
    configurations = {"builtin:default": ["builtin:default"], OLDER.stem: [str(OLDER)]}
    print(f"{len(requests)} requests at load {arguments.load:g}\n")
    print("| heads | configuration | mean | p50 | p90 | p99 | failed | mean by the router | of the older profile |")
    print("|---|---|---|---|---|---|---|---|---|")
    for early in (False, True):
        rows = {
            name: await measure(requests, layers, arguments.speed, early=early)
            for name, layers in configurations.items()
        }
        older = statistics.fmean(rows[OLDER.stem].ttfts)
        for name, found in rows.items():
            mean = statistics.fmean(found.ttfts)
            times = [mean, *(quantile(found.ttfts, share) for share in (0.5, 0.9, 0.99))]
            heads = "at accept" if early else "with the first token"
            cells = [
                heads,
                name,
                *(f"{one:.2f}" for one in times),
                found.failed,
                f"{found.reported:.2f}",
                f"{mean / older:.2f}",
            ]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True, help="in Mooncake's format")
    parser.add_argument("--cut", type=float, default=400.0, help="seconds of the trace (default: 400)")
    parser.add_argument("--load", type=float, default=0.8, help="as for `pointsman replay` (default: 0.8)")
    parser.add_argument("--speed", type=float, default=4.0, help="how many times as fast it runs (default: 4)")
    asyncio.run(main(parser.parse_args()))
