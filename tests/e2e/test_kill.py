"""Three servers in processes of their own, fifty streams, one server killed."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.support.processes import Process, pointsman
from tests.support.running import Running, running, until

STREAMS = 50


async def stream(app: Running, number: int, begun: list[int]) -> str:
    """How one stream ended: `done`, `broken` after it had begun, or the status it was refused with."""
    body = {"model": "demo", "stream": True, "max_tokens": 40, "messages": [{"role": "user", "content": f"n {number}"}]}
    async with app.client.post(f"{app.url}/v1/chat/completions", json=body) as answer:
        if answer.status != 200:
            return str(answer.status)
        try:
            first = await answer.content.readany()
            begun.append(number)
            rest = first + await answer.content.read()
        except aiohttp.ClientPayloadError:
            return "broken"
        return "done" if rest.endswith(b"data: [DONE]\n\n") else "silently cut"


async def port_of(server: Process) -> int:
    return int((await server.says(r"http://127.0.0.1:(\d+)"))[1])


@pytest.mark.parametrize(
    ("rate", "when"),
    [
        pytest.param("20", "before", id="before any byte"),
        pytest.param("100000", "within", id="after the heads"),
    ],
)
async def test_a_killed_server_fails_no_request_that_had_not_begun_and_is_picked_when_back(
    rate: str, when: str
) -> None:
    fleet = ["fleet", "--count", "1", "--max-num-seqs", "64", "--prefill-rate", rate, "--decode-rate", "20", "--port"]
    async with pointsman(*fleet, "0") as a, pointsman(*fleet, "0") as b, pointsman(*fleet, "0") as victim:
        ports = [await port_of(server) for server in (a, b, victim)]
        async with running(ports=ports, sets=["pool.scrape.interval=200ms"]) as app:
            begun: list[int] = []
            streams = [asyncio.create_task(stream(app, number, begun)) for number in range(STREAMS)]
            in_flight = app.process.in_flight()
            await until(lambda: in_flight.total == STREAMS)
            if when == "within":
                await until(lambda: len(begun) == STREAMS)
            at_victim = in_flight.count("e2")
            victim.process.kill()
            endings = await asyncio.gather(*streams)
            assert at_victim > 0
            assert set(endings) <= {"done", "broken"}
            assert endings.count("broken") == (at_victim if when == "within" else 0)
            async with pointsman(*fleet, str(ports[2])) as back:
                await port_of(back)
                await until(lambda: app.generation.pool().names == {"e0", "e1", "e2"})
