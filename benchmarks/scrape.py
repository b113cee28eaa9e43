"""What watching the fleet costs: the router's CPU while it does nothing but read metrics pages.

    .venv/bin/python benchmarks/scrape.py [--endpoints 50] [--seconds 20]

One process serves a recorded page of vLLM, of some 50 KB, at as many ports as there are endpoints; a router with the
default configuration reads them once a second. Counted is the router's CPU over the seconds after its start, less that
of a router without endpoints; no request is sent.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).parents[1] / "tests" / "data" / "vllm-0.32-cpu.txt"
POINTSMAN = str(Path(sys.executable).with_name("pointsman"))
FIRST_PORT = 18500
SETTLED = 5.0
"""Seconds that a router has to start."""


async def serve(count: int) -> None:
    """Serves the page, and an empty model list, at `count` ports."""
    page = PAGE.read_bytes()
    answers = {b"/metrics": page, b"/v1/models": b'{"data": []}'}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = answers[head.split(b" ", 2)[1]]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    servers = [await asyncio.start_server(answer, "127.0.0.1", FIRST_PORT + number) for number in range(count)]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def cpu_of(pid: int) -> float:
    """Seconds of CPU that all threads of a process have used."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def share_of_a_core(endpoints: int, seconds: float) -> float:
    """CPU per second of a router with so many endpoints."""
    listed = ", ".join(f"{{name: e{n}, address: 127.0.0.1, port: {FIRST_PORT + n}}}" for n in range(endpoints))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "router.yaml"
        file.write_text(
            "transports: {http: {bind: 127.0.0.1, port: 0}, admin: {bind: 127.0.0.1, port: 0}}\n"
            f"observability: {{logging: {{level: error}}}}\npool: {{endpoints: [{listed}]}}\n"
        )
        router = subprocess.Popen([POINTSMAN, "serve", "-c", "builtin:default", "-c", str(file)])
        try:
            time.sleep(SETTLED)
            before, began = cpu_of(router.pid), time.monotonic()
            time.sleep(seconds)
            return (cpu_of(router.pid) - before) / (time.monotonic() - began)
        finally:
            router.terminate()
            router.wait()


def main() -> None:
    """Prints the shares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoints", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve", type=int, help="used by this script itself")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
        return
    fleet = subprocess.Popen([sys.executable, __file__, "--serve", str(arguments.endpoints)])
    try:
        idle = share_of_a_core(0, arguments.seconds)
        busy = share_of_a_core(arguments.endpoints, arguments.seconds)
    finally:
        fleet.terminate()
        fleet.wait()
    per_page = (busy - idle) / arguments.endpoints
    print(f"a page of {PAGE.stat().st_size} bytes, once a second from each of {arguments.endpoints} endpoints")
    print(f"CPU of the router: {busy:.2%} of a core, {idle:.2%} without endpoints; {per_page * 1e6:.0f} us per page")


if __name__ == "__main__":
    main()
