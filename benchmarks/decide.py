"""CPU time of one decision: default profile, a 16 KB prompt already parsed, hashing included.

    python benchmarks/decide.py

Three kinds of traffic are measured: prompts that no endpoint has seen, prompts of running conversations whose
beginning one endpoint has, and conversations that share a system prompt of half their length, which all endpoints
have. The reference is a fixed piece of Python work measured in the same run, so that ratios compare across machines.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from random import Random

import uvloop

from app.domain.metrics import EndpointMetrics
from app.lifecycle import lifecycles
from app.routing.router import Router
from app.settings.layers import Sources
from containers.application import Application, load
from containers.generation import GenerationContainer
from pointsman import InferenceRequest
from pointsman.testing import make_endpoint

PROMPT = 16 * 1024
CONVERSATIONS = 200
DECISIONS = 2000
ROUNDS = 5
SIZES = (10, 100, 1000)


def words(random: Random, size: int) -> bytes:
    """Text of `size` bytes, in words of six letters and digits."""
    return random.randbytes(size * 3 // 7 + 3).hex(" ", 3)[:size].encode()


def prompts(kind: str, random: Random) -> list[bytes]:
    """As many prompts as decisions of a round."""
    if kind == "unseen":
        return [words(random, PROMPT) for _ in range(DECISIONS)]
    shared = words(random, PROMPT // 2)
    if kind == "conversations":
        texts = [words(random, PROMPT) for _ in range(CONVERSATIONS)]
    else:
        texts = [shared + words(random, PROMPT // 2) for _ in range(CONVERSATIONS)]
    return [texts[number % CONVERSATIONS] for number in range(DECISIONS)]


def build(size: int, random: Random) -> tuple[GenerationContainer, Router]:
    """A router over `size` endpoints with fresh metrics, as after a scrape."""
    generation = Application(load(Sources(("builtin:default",))), random=random).generation
    pool = generation.pool()
    pool.replace_all([make_endpoint(f"e{number}", port=8000 + number) for number in range(size)])
    asyncio.run(lifecycles(generation.all_plugins()).start())
    for status in pool.statuses():
        metrics = EndpointMetrics(waiting=random.randrange(8), running=random.randrange(32), kv_cache_usage=0.5)
        pool.record(status.endpoint, metrics)
    return generation, generation.router()


async def decide(router: Router, requests: list[InferenceRequest]) -> float:
    """CPU seconds per decision, from the parsed request to the endpoint, its end included."""
    before = time.process_time()
    for request in requests:
        async with router.route(request):
            pass
    return (time.process_time() - before) / len(requests)


def measure(size: int, kind: str) -> float:
    """Median CPU seconds per decision over the rounds; the first round, in which caches fill, is not counted."""
    random = Random(7)
    generation, router = build(size, random)
    if kind == "shared":
        warm_all(generation, prompts(kind, Random(1))[0])
    times = []
    for number in range(ROUNDS + 1):
        texts = prompts(kind, random if kind == "unseen" else Random(1))
        requests = [
            InferenceRequest(f"{number}-{i}", "/v1/completions", model="demo", prompts=(text,), streaming=True)
            for i, text in enumerate(texts)
        ]
        refresh(generation)
        gc.collect()
        times.append(uvloop.run(decide(router, requests)))
    return statistics.median(times[1:])


def warm_all(generation: GenerationContainer, text: bytes) -> None:
    """Every endpoint has seen the shared half."""
    producer = generation.plugins["approx-prefix-cache-producer"]()
    request = InferenceRequest("warm", "/v1/chat/completions", model="demo", prompts=(text[: PROMPT // 2],))
    facts = asyncio.run(producer.produce(request, generation.pool()))
    ((_, shape),) = [(key, value) for key, value in facts.items() if key.name == "prefix-shape"]
    for name in generation.pool().names:
        for chain in shape.chains:
            producer._memory._index.touch(name, chain, 31250)  # noqa: SLF001 - there is no other way to warm an endpoint


def refresh(generation: GenerationContainer) -> None:
    """Metrics are read anew, so that none is stale."""
    pool = generation.pool()
    for status in pool.statuses():
        if status.metrics is not None:
            pool.record(status.endpoint, status.metrics)


def reference() -> float:
    """CPU seconds of a fixed piece of work: a dictionary of a hundred thousand entries filled and summed."""
    times = []
    for _ in range(ROUNDS):
        before = time.process_time()
        table = {number: number & 7 for number in range(100_000)}
        assert sum(table.values()) > 0
        times.append(time.process_time() - before)
    return statistics.median(times)


def main() -> None:
    """Prints the table."""
    unit = reference()
    print(f"reference work: {unit * 1e3:.2f} ms CPU\n")
    print("| endpoints | traffic | CPU per decision, us | in thousandths of the reference |")
    print("|---|---|---|---|")
    for size in SIZES:
        for kind in ("unseen", "conversations", "shared"):
            seconds = measure(size, kind)
            print(f"| {size} | {kind} | {seconds * 1e6:.0f} | {seconds / unit * 1e3:.1f} |")


if __name__ == "__main__":
    main()
