"""Soaks a router in misbehaviour, and looks whether anything is left of it when all clients are gone.

    .venv/bin/python benchmarks/soak.py [--minutes 10] [--streams 64] [--seed 1]

A router runs as a process of its own. Its endpoints, in this process, stream answers of random length and are restarted
at random: the listener closed, the connections reset, started again on the same port. Its clients speak raw bytes:
some leave before the head, within the answer or within their own body, some read slowly, some pipeline, some send large
bodies, some send what is no request. First all of that for a while to warm up, then for the time asked for; whenever
all clients are gone, what the router holds is counted. Exit code 1 if a check fails.

The answers say whose they are, so that one which reaches another client's request is found. A request may end broken
only if its endpoint was restarted under it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import statistics
import struct
import sys
import tempfile
import time
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing resets the connection."""

WORDS = [f"track {n} of the marshalling yard is free. " * 20 for n in range(50)]
"""Prompts: few, so that the prefix index is full soon."""

LARGE = ["x" * size for size in (200_000, 900_000, 3_000_000)]

PLUGIN = '''
"""Tells how much the router's event loop holds."""

import asyncio
import gc

from prometheus_client import Gauge

from pointsman import MetricsRegistry

KINDS = ("ClientConnection", "EndpointConnection", "IncomingRequest", "Response", "ResponseWriter", "Route")


class Held:
    """Gauges of tasks, and of objects of some classes, which are infinite while there are clients."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._tasks = Gauge("soak_tasks", "Tasks of the event loop.", registry=registry)
        objects = Gauge("soak_objects", "Objects of some classes.", ["kind"], registry=registry)
        self._objects = {kind: objects.labels(kind) for kind in KINDS}
        self._task = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._count())

    async def stop(self) -> None:
        self._task.cancel()

    def on_refused(self, request, error) -> None:
        """Nothing; it makes a plugin of it."""

    async def _count(self) -> None:
        while True:
            tasks = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
            self._tasks.set(len(tasks))
            self._look(at_rest="ClientConnection._serve_all" not in tasks)
            await asyncio.sleep(EVERY)

    def _look(self, *, at_rest: bool) -> None:
        """Counts objects that are no garbage; while there are clients it is too dear, and of no use."""
        names = []
        if at_rest:
            gc.collect()
            names = [type(thing).__name__ for thing in gc.get_objects()]
        for kind, gauge in self._objects.items():
            gauge.set(names.count(kind) if at_rest else float("inf"))
'''

CONFIGURATION = """
transports: {{http: {{bind: 127.0.0.1, port: {port}}}, admin: {{bind: 127.0.0.1, port: {admin}}}}}
pool: {{endpoints: [{endpoints}], models: {{interval: 0s}}}}
plugins: [{{name: held, type: "{plugin}:Held"}}]
observability: {{logging: {{format: json, level: warning}}}}
"""


@dataclass(frozen=True)
class Plan:
    """How long, how many, and what is tolerated."""

    seconds: float = 600.0
    warm_up: float = 20.0
    streams: int = 64
    endpoints: int = 4
    seed: int = 1
    patience: float = 60.0
    """For one request of a client that does not stall by itself; one that takes longer hangs."""
    settle: float = 30.0
    """For the router to let go of everything, once all clients are gone."""
    restart_every: float = 2.0
    """Seconds, in the mean."""
    expire: bool = True
    """Wait until idle connections expire, instead of closing them from the endpoints' side."""
    growth: float = 8.0
    """MB that the resident set may grow by, from the first third to the last."""
    sample_every: float = 0.5


# -- the endpoints


@dataclass
class Engine:
    """A fake model server that can be restarted."""

    name: str
    port: int
    chance: random.Random
    cut: set[str]
    """Ids of requests that a restart may have broken."""
    server: asyncio.AbstractServer | None = None
    talking: dict[StreamWriter, str] = field(default_factory=dict)
    """Open connections, each with the id of its last request."""

    async def start(self) -> None:
        """Listens."""
        self.server = await asyncio.start_server(self._serve, HOST, self.port, limit=2**23)

    def stop(self) -> None:
        """Closes the listener, resets all connections."""
        if self.server is not None:
            self.server.close()
        self.server = None
        for writer, number in tuple(self.talking.items()):
            self.cut.add(number)
            reset(writer)

    def drop_idle(self) -> None:
        """Closes all connections; to be called when no request is under way."""
        for writer in self.talking:
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.talking[writer] = ""
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            del self.talking[writer]
            writer.close()

    async def _exchange(self, reader: StreamReader, writer: StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if head.startswith(b"get /metrics "):
            writer.write(closing(200, b"vllm:num_requests_waiting 0\nvllm:num_requests_running 1\n"))
            await writer.drain()
            return False
        self.talking[writer] = number = found(rb"x-request-id: (\S+)", head)
        body = await reader.readexactly(int(found(rb"content-length: (\d+)", head) or 0))
        if self.chance.random() < 0.2:
            await asyncio.sleep(self.chance.expovariate(20))
        if json.loads(body).get("stream"):
            return await self._stream(writer, number)
        text = json.dumps({"id": number, "size": len(body), "text": "y" * self.chance.randrange(20_000)}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()
        return True

    async def _stream(self, writer: StreamWriter, number: str) -> bool:
        chunked = self.chance.random() < 0.8
        framing = b"transfer-encoding: chunked" if chunked else b"connection: close"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + framing + b"\r\n\r\n")
        count = min(int(self.chance.expovariate(1 / 40)) + 1, 400)
        size = self.chance.choice((10, 100, 100, 4000))
        for index in range(count + 1):
            event = sse({"id": number, "n": index, "text": "z" * size}) if index < count else b"data: [DONE]\n\n"
            writer.write(b"%x\r\n%b\r\n" % (len(event), event) if chunked else event)
            await writer.drain()
            if self.chance.random() < 0.3:
                await asyncio.sleep(self.chance.expovariate(100))
        if chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return chunked


def sse(content: object) -> bytes:
    """One event."""
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def closing(status: int, body: bytes) -> bytes:
    """An answer after which the connection is closed."""
    return b"HTTP/1.1 %d X\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (status, len(body)) + body


def found(pattern: bytes, data: bytes) -> str:
    """What the pattern's group matches, or nothing."""
    match = re.search(pattern, data)
    return match[1].decode() if match else ""


def reset(writer: StreamWriter) -> None:
    """Ends a connection in a way that the other side can't take for an end of the data."""
    if not writer.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()


async def restarts(engines: list[Engine], plan: Plan, done: asyncio.Event) -> int:
    """Restarts one of the engines now and then, until `done`. Returns how often."""
    chance = random.Random(f"{plan.seed} restarts")
    count = 0
    while not await over(done, chance.expovariate(1 / plan.restart_every)):
        engine = chance.choice(engines)
        engine.stop()
        await asyncio.sleep(chance.choice((0, 0.05, 0.5)))
        await engine.start()
        count += 1
    return count


async def over(done: asyncio.Event, seconds: float) -> bool:
    """Whether `done` comes within `seconds`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(done.wait(), seconds)
    return done.is_set()


# -- the clients


class WrongError(ValueError):
    """An answer that is no answer to what was asked."""


@dataclass
class Client:
    """Sends one request after the other, each time in another way."""

    name: str
    port: int
    plan: Plan
    cut: set[str]
    results: Counter[str]
    wrong: list[str]
    chance: random.Random
    sent: int = 0
    number: str = ""
    """Id of the request under way."""
    link: tuple[StreamReader, StreamWriter] | None = None

    async def run(self, done: asyncio.Event) -> None:
        """Until `done`."""
        ways = self._ways()
        while not done.is_set():
            (way,) = self.chance.choices([*ways], [*ways.values()])
            try:
                async with asyncio.timeout(self.plan.patience):
                    await way()
            except TimeoutError:
                self.wrong.append(f"{self.number} hangs in {way.__name__}")
                self._hang_up()
            except (OSError, asyncio.IncompleteReadError) as error:
                self._broken(way.__name__, error)
            except ValueError as error:
                self.wrong.append(f"{self.number} in {way.__name__}: {error}")
                self._hang_up()
        self._hang_up()

    def _ways(self) -> dict[Callable[[], Awaitable[None]], int]:
        """What it does, and how often in relation to the others."""
        return {
            self.chats: 40,
            self.asks: 15,
            self.pipelines: 8,
            self.sends_much: 4,
            self.reads_slowly: 6,
            self.leaves_before_the_head: 6,
            self.leaves_within_the_answer: 10,
            self.leaves_within_its_body: 6,
            self.leaves_idle: 2,
            self.sends_rubbish: 3,
        }

    # -- the ways

    async def chats(self) -> None:
        """A stream, read as it comes."""
        await self._ask(stream=True)

    async def asks(self) -> None:
        """An answer in one piece."""
        await self._ask(stream=False)

    async def pipelines(self) -> None:
        """Several requests at once."""
        reader, writer = await self._linked()
        numbers = []
        for _ in range(self.chance.randrange(2, 12)):
            writer.write(b"".join(self._request(stream=self.chance.random() < 0.3)))
            numbers.append(self.number)
        for self.number in numbers:
            if not await self._read(reader):
                break

    async def sends_much(self) -> None:
        """A large body, in pieces."""
        head, body = self._request(stream=False, text=self.chance.choice(LARGE), chunked=self.chance.random() < 0.5)
        reader, writer = await self._linked()
        writer.write(head)
        for at in range(0, len(body), 100_000):
            writer.write(body[at : at + 100_000])
            await writer.drain()
        await self._read(reader)

    async def reads_slowly(self) -> None:
        """A stream, taken in small pieces."""
        self._hang_up()
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.setblocking(False)  # noqa: FBT003
        try:
            await asyncio.get_running_loop().sock_connect(link, (HOST, self.port))
        except OSError:
            link.close()
            raise
        self.link = await asyncio.open_connection(sock=link, limit=4096)
        await self._ask(stream=True, pause=0.003)
        self._hang_up()

    async def leaves_before_the_head(self) -> None:
        """Asks, and is gone at once or soon."""
        await self._send(stream=True)
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.01, 0.1)))
        self._leave()

    async def leaves_within_the_answer(self) -> None:
        """Takes some of it; perhaps nothing for a while, before it goes."""
        reader = await self._send(stream=True)
        data = b"" if b"chunked" in (await reader.readuntil(b"\r\n\r\n")).lower() else b"0\r\n\r\n"
        for _ in range(self.chance.randrange(20)):
            if reader.at_eof() or data.endswith(b"0\r\n\r\n"):
                break  # it was short
            data += await reader.read(1000)
        if self.chance.random() < 0.3:
            await asyncio.sleep(self.chance.random())
        self._leave()

    async def leaves_within_its_body(self) -> None:
        """Sends half of what it has announced."""
        text = self.chance.choice([*LARGE, *WORDS])
        data = b"".join(self._request(stream=True, text=text, chunked=self.chance.random() < 0.5))
        _, writer = await self._linked()
        writer.write(data[: self.chance.randrange(len(data))])
        await asyncio.sleep(self.chance.choice((0, 0.01, 0.1)))
        self._leave()

    async def leaves_idle(self) -> None:
        """Closes a connection that is idle, or opens another one for nothing."""
        await self._linked()
        await asyncio.sleep(self.chance.choice((0, 0.01)))
        self._leave()

    async def sends_rubbish(self) -> None:
        """What is no request, after which the router closes."""
        self.number = f"{self.name}-rubbish"
        reader, writer = await self._linked()
        writer.write(self.chance.choice((b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"POST /x\r\n\r\n")))
        if not re.match(rb"HTTP/1.1 (400|501) ", head := await reader.readuntil(b"\r\n\r\n")):
            raise WrongError(f"rubbish got {head!r}")
        await reader.read()
        self.results["rubbish refused"] += 1
        self._hang_up()

    # -- asking and reading

    async def _ask(self, *, stream: bool, pause: float = 0.0) -> None:
        await self._read(await self._send(stream=stream), pause)

    async def _send(self, *, stream: bool) -> StreamReader:
        reader, writer = await self._linked()
        writer.writelines(self._request(stream=stream))
        await writer.drain()
        return reader

    def _request(self, *, stream: bool, text: str = "", chunked: bool = False) -> tuple[bytes, bytes]:
        self.sent += 1
        self.number = f"{self.name}-{self.sent}"
        messages = [{"role": "user", "content": text or self.chance.choice(WORDS)}]
        body = json.dumps({"model": "demo", "stream": stream, "messages": messages}).encode()
        fields = b"host: soak\r\ncontent-type: application/json\r\nx-request-id: %b\r\n" % self.number.encode()
        fields += b"transfer-encoding: chunked\r\n" if chunked else b"content-length: %d\r\n" % len(body)
        if chunked:
            pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
        return b"POST /v1/chat/completions HTTP/1.1\r\n" + fields + b"\r\n", body

    async def _read(self, reader: StreamReader, pause: float = 0.0) -> bool:
        """Reads one answer and counts it; whether another one may follow on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if (given := found(rb"x-request-id: (\S+)", head)) != self.number:
            raise WrongError(f"it got the answer to {given!r}")
        if b"chunked" in head:
            body = await self._chunks(reader, pause)
        else:
            body = await reader.readexactly(int(found(rb"content-length: (\d+)", head)))
        self._count(head, body)
        if b"connection: close" in head:
            self._hang_up()
        return self.link is not None

    async def _chunks(self, reader: StreamReader, pause: float) -> bytes:
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                raise WrongError("a chunk has no end")
            if pause:
                await asyncio.sleep(pause)
        if await reader.readexactly(2) != b"\r\n":
            raise WrongError("the last chunk has no end")
        return body

    def _count(self, head: bytes, body: bytes) -> None:
        status = found(rb"^http/1.1 (\d+)", head)
        if status == "503":
            self.results["refused"] += 1
        elif status != "200":
            raise WrongError(f"{status} {body[:200]!r}")
        elif b"text/event-stream" in head:
            self._check_stream(body)
            self.results["served, streams"] += 1
        else:
            if json.loads(body)["id"] != self.number:
                raise WrongError("it got another one's answer")
            self.results["served, plain"] += 1

    def _check_stream(self, body: bytes) -> None:
        *events, done, empty = body.split(b"\n\n")
        if (done, empty) != (b"data: [DONE]", b""):
            raise WrongError("a stream has no end, and ended well")
        for index, event in enumerate(events):
            content = json.loads(event.removeprefix(b"data: "))
            if (content["id"], content["n"]) != (self.number, index):
                raise WrongError("a stream is not its own, or has a gap")

    # -- its connection

    async def _linked(self) -> tuple[StreamReader, StreamWriter]:
        if self.link is None or self.link[1].is_closing() or self.link[0].at_eof() or self.chance.random() < 0.1:
            self._hang_up()
            self.link = await asyncio.open_connection(HOST, self.port)
        return self.link

    def _hang_up(self) -> None:
        if self.link is not None:
            self.link[1].close()
        self.link = None

    def _leave(self) -> None:
        self.results["left by the client"] += 1
        if self.link is not None and self.chance.random() < 0.5:
            reset(self.link[1])
        self._hang_up()

    def _broken(self, way: str, error: Exception) -> None:
        self._hang_up()
        self.results["broken off"] += 1
        if self.number not in self.cut:
            self.wrong.append(f"{self.number} in {way} broke off, and no endpoint did: {error!r}")


# -- the router


@dataclass
class Router:
    """The process and what can be seen of it."""

    process: Process
    port: int
    admin: int
    told: list[str] = field(default_factory=list)
    """What it wrote to standard error."""

    async def listen(self, stream: StreamReader) -> None:
        """Takes what it tells, so that it can go on."""
        while line := await stream.readline():
            self.told.append(line.decode(errors="replace").rstrip())

    async def page(self, path: str) -> str:
        """One of the admin pages, over a connection of its own."""
        reader, writer = await asyncio.open_connection(HOST, self.admin)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nhost: soak\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        if b" 200 " not in head[:20]:
            raise ConnectionError(head)
        return body.decode()

    async def ready(self) -> None:
        """Returns when it is."""
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(OSError):
                    await self.page("/readyz")
                    return
                if self.process.returncode is not None:
                    raise SystemExit("\n".join(self.told))
                await asyncio.sleep(0.05)

    async def held(self) -> dict[str, float]:
        """What it holds, by name."""
        own = Path(f"/proc/{self.process.pid}")
        held: dict[str, float] = {
            "file descriptors": sum(1 for _ in own.joinpath("fd").iterdir()),
            "threads": sum(1 for _ in own.joinpath("task").iterdir()),
        }
        for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (\S+)$", await self.page("/metrics"), re.MULTILINE):
            if name == "llm_d_epp_per_endpoint_in_flight":
                held["in flight, /metrics"] = held.get("in flight, /metrics", 0) + float(value)
            elif name == "soak_tasks":
                held["tasks"] = float(value)
            elif name == "soak_objects":
                held["objects, " + labels.partition('kind="')[2].partition('"')[0]] = float(value)
        endpoints = json.loads(await self.page("/debug/endpoints"))["endpoints"]
        held["in flight, /debug/endpoints"] = sum(endpoint["in_flight"] for endpoint in endpoints)
        return held

    def resident(self) -> float:
        """MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def errors(self) -> list[str]:
        """Lines of level error, and those that are no log lines at all, such as a traceback."""
        return [line for line in self.told if not re.search(r'"level": ?"(debug|info|warning)"', line)]


def free_ports(count: int) -> list[int]:
    """Below those that outgoing connections get: a port must be free again when its server is restarted."""
    ports: list[int] = []
    for port in random.sample(range(15000, 32000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            ports.append(port)
        if len(ports) == count:
            break
    return ports


@contextlib.asynccontextmanager
async def router(engines: list[Engine], every: float) -> AsyncIterator[Router]:
    """A router that runs as long as the block; then it is told to stop, and must."""
    port, admin = free_ports(2)
    endpoints = ", ".join(f"{{name: {e.name}, address: {HOST}, port: {e.port}}}" for e in engines)
    with tempfile.TemporaryDirectory() as folder:
        plugin, path = Path(folder, "held.py"), Path(folder, "soak.yaml")
        plugin.write_text(PLUGIN.replace("EVERY", str(every)), encoding="utf-8")
        text = CONFIGURATION.format(port=port, admin=admin, endpoints=endpoints, plugin=plugin)
        path.write_text(text, encoding="utf-8")
        command = (sys.executable, "-m", "app", "serve", "-c", "builtin:default", "-c", str(path))
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stderr=PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        assert process.stderr is not None
        running = Router(process, port, admin)
        listening = asyncio.create_task(running.listen(process.stderr))
        try:
            yield running
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()
            await listening


# -- the soak


@dataclass
class Check:
    """One row of the table."""

    what: str
    found: object
    wanted: str
    good: bool


@dataclass
class Report:
    """What came of it."""

    results: Counter[str]
    checks: list[Check] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What was wrong in words: answers, lines of the router."""

    def add(self, what: str, value: object, wanted: str, *, good: bool) -> None:
        """One more check."""
        self.checks.append(Check(what, value, wanted, good))

    @property
    def failed(self) -> list[Check]:
        """Checks that did not hold."""
        return [check for check in self.checks if not check.good]

    def __str__(self) -> str:
        rows = [("requests", "number", "")] + [(what, str(n), "") for what, n in sorted(self.results.items())]
        rows += [("", "", ""), ("check", "found", "wanted")]
        rows += [(c.what, f"{c.found}", c.wanted + ("" if c.good else "   FAILED")) for c in self.checks]
        lines = [f"{what:<36} {value:>12}   {wanted}".rstrip() for what, value, wanted in rows]
        return "\n".join([*lines, *self.faults[:20]])


@dataclass
class Soak:
    """One run against one router."""

    plan: Plan
    engines: list[Engine]
    router: Router
    cut: set[str]
    results: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)

    async def load(self, seconds: float, phase: str) -> None:
        """Clients and restarts for a while; returns when all clients are gone."""
        done = asyncio.Event()
        clients = [
            Client(name, self.router.port, self.plan, self.cut, self.results, self.wrong, random.Random(name))
            for name in (f"{phase}-{self.plan.seed}-{n}" for n in range(self.plan.streams))
        ]
        async with asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(client.run(done))
            tasks.create_task(self._watch(done))
            restarting = tasks.create_task(restarts(self.engines, self.plan, done))
            await asyncio.sleep(seconds)
            done.set()
        self.results["restarts of endpoints"] += restarting.result()

    async def _watch(self, done: asyncio.Event) -> None:
        while not await over(done, self.plan.sample_every):
            self.resident.append(self.router.resident())

    async def rests(self) -> dict[str, float]:
        """The least that the router holds of each within a while in which nothing comes."""
        least = await self.router.held()
        for _ in range(10):
            await asyncio.sleep(self.plan.sample_every / 2)
            least = {what: min(value, least[what]) for what, value in (await self.router.held()).items()}
        return least

    async def settled(self, before: dict[str, float]) -> dict[str, float]:
        """What it holds as soon as that is no more than before, or in the end."""
        if not self.plan.expire:
            self.drop_idle()
        ends = time.monotonic() + self.plan.settle
        least = held = await self.router.held()
        while time.monotonic() < ends and any(least[what] > before[what] for what in before):
            await asyncio.sleep(0.1)
            held = await self.router.held()
            least = {what: min(value, least[what]) for what, value in held.items()}
        return least

    def drop_idle(self) -> None:
        """Closes the connections that the router keeps."""
        for engine in self.engines:
            engine.drop_idle()

    def growth(self) -> float:
        """MB, from the median of the first third to that of the last."""
        third = max(1, len(self.resident) // 3)
        return statistics.median(self.resident[-third:]) - statistics.median(self.resident[:third])


async def run(plan: Plan) -> Report:
    """The whole of it."""
    cut: set[str] = set()
    engines = [
        Engine(f"e{n}", port, random.Random(f"{plan.seed} engine {n}"), cut)
        for n, port in enumerate(free_ports(plan.endpoints))
    ]
    for engine in engines:
        await engine.start()
    try:
        async with router(engines, plan.sample_every / 2) as running:
            await running.ready()
            soak = Soak(plan, engines, running, cut)
            before = await soak.rests()
            await soak.load(plan.warm_up, "warm")
            warm = await soak.settled(before)
            soak.resident.clear()
            await soak.load(plan.seconds, "soak")
            report = checked(soak, before, warm, await soak.settled(before))
        report.add("exit code", running.process.returncode, "0", good=running.process.returncode == 0)
        report.add("lines of level error", len(running.errors), "0", good=not running.errors)
        report.faults += running.errors
    finally:
        for engine in engines:
            engine.stop()
    return report


def checked(soak: Soak, before: dict[str, float], warm: dict[str, float], after: dict[str, float]) -> Report:
    """What can be told while the router still runs."""
    report = Report(soak.results, faults=list(soak.wrong))
    for what, value in after.items():
        wanted = f"at most {before[what]:g}; {warm[what]:g} after warm-up"
        report.add(what, f"{value:g}", wanted, good=value <= before[what])
        if what.startswith("in flight"):
            report.checks[-1].good = value == 0
    grown = soak.growth()
    report.add(
        "growth of resident set, MB", f"{grown:.1f}", f"at most {soak.plan.growth:g}", good=grown <= soak.plan.growth
    )
    report.add("resident set, MB", f"{soak.router.resident():.0f}", "", good=True)
    report.add("wrong or hanging answers", len(soak.wrong), "0", good=not soak.wrong)
    served = soak.results["served, streams"] + soak.results["served, plain"]
    report.add("requests served", served, "more than 0", good=served > 0)
    return report


def main() -> int:
    """Prints what came of it; exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plan = Plan(seconds=arguments.minutes * 60, streams=arguments.streams, seed=arguments.seed)
    report = asyncio.run(run(plan))
    print(report)
    return bool(report.failed)


if __name__ == "__main__":
    sys.exit(main())
