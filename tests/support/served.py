"""`pointsman serve` in its own process, on free ports, with a client for its admin pages."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from tests.support.engines import Handle
from tests.support.processes import Process, pointsman

HERE: Mapping[str, Any] = {"bind": "127.0.0.1", "port": 0}
LISTENS = r"(?:routes http://localhost:|proxies that call port )(\d+)"
ADMIN = r"Health, metrics and debug pages: (http://localhost:\d+)"

PREFERS = '''
class Prefers:
    """Prefers the endpoints in the request's header `prefer`, best first; without the header, `a`."""

    def score(self, request, candidates):
        named = request.headers.get("prefer", "a").split(",")
        return [1 / (1 + named.index(each.name)) if each.name in named else 0.0 for each in candidates]
'''


@dataclass(frozen=True)
class Served:
    """The process, its port for clients or proxies, and a client for its admin pages."""

    process: Process
    port: int
    admin_url: str
    client: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def endpoints(self) -> Mapping[str, Mapping[str, Any]]:
        """`/debug/endpoints`, by name."""
        async with self.client.get(f"{self.admin_url}/debug/endpoints") as response:
            return {endpoint["name"]: endpoint for endpoint in (await response.json())["endpoints"]}

    async def in_flight(self) -> Mapping[str, int]:
        """The number of requests in flight of each endpoint that has any."""
        endpoints = (await self.endpoints()).values()
        return {each["name"]: each["in_flight"] for each in endpoints if each["in_flight"]}

    async def has_in_flight(self, expected: Mapping[str, int]) -> None:
        """Waits until exactly these requests are in flight."""
        async with asyncio.timeout(20):
            while await self.in_flight() != expected:
                await asyncio.sleep(0.02)

    async def is_idle(self) -> None:
        """Waits until no requests are in flight."""
        await self.has_in_flight({})

    async def metric(self, sample: str) -> float:
        """The value of a sample of `/metrics`, by its name and labels; 0 if there is none."""
        async with self.client.get(f"{self.admin_url}/metrics") as response:
            page = await response.text()
        values = [line.rpartition(" ")[2] for line in page.splitlines() if line.rpartition(" ")[0] == sample]
        return float(values[0]) if values else 0.0

    async def logged(self, request: str) -> str:
        """The line of the access log for a request, by its id."""
        return (await self.process.says(rf".*\brequest .*\bid={request}\b.*"))[0]

    async def ended(self, ending: str) -> float:
        """The number of attempts with this ending."""
        return await self.metric(f'pointsman_attempts_ended_total{{ending="{ending}"}}')


@asynccontextmanager
async def serving(configuration: Mapping[str, Any], *arguments: str) -> AsyncIterator[Served]:
    """A process that has started with this configuration."""
    transports = {"http": HERE, **configuration.get("transports", {}), "admin": HERE}
    whole = {
        "observability": {"logging": {"format": "console", "access": True}},
        "reload": {"watch": False},
        **configuration,
        "transports": transports,
    }
    async with pointsman("serve", "--config-text", yaml.safe_dump(whole), *arguments) as process:
        admin_url = (await process.says(ADMIN))[1].replace("localhost", "127.0.0.1")
        port = int((await process.says(LISTENS))[1])
        try:
            async with aiohttp.ClientSession() as client:
                yield Served(process, port, admin_url, client)
        finally:
            await _ends(process)


async def _ends(running: Process) -> None:
    """Terminates a process so that it can clean up. `pointsman` kills it if it does not exit."""
    with suppress(ProcessLookupError, TimeoutError):
        running.process.terminate()
        await running.ends(5)


def picks(folder: Path, *, announces: int = 1) -> Mapping[str, Any]:
    """A configuration by which requests choose their endpoint. `announces` endpoints are sent to the proxy."""
    file = folder / "prefers.py"
    file.write_text(PREFERS)
    picker = {"type": "max-score-picker", "parameters": {"maxNumOfEndpoints": announces}}
    profile = {"name": "default", "plugins": [{"pluginRef": "prefers", "weight": 1}, {"pluginRef": "max-score-picker"}]}
    return {"plugins": [{"type": f"{file}:Prefers", "name": "prefers"}, picker], "schedulingProfiles": [profile]}


def endpoint(name: str, port: int, **more: object) -> Mapping[str, Any]:
    """An endpoint on this machine, as a configuration lists it."""
    return {"name": name, "address": "127.0.0.1", "port": port, **more}


@contextmanager
def refusing() -> Iterator[int]:
    """A port that refuses connections, reserved meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


# -- responses of engines


def chunk_of(text: str) -> bytes:
    """An event of a chat stream."""
    choice = {"index": 0, "finish_reason": None, "delta": {"role": "assistant", "content": text}}
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "demo", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def completes(by: str) -> Handle:
    """A complete chat response, whose content is `by` and the size of the request body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        message = {"role": "assistant", "content": f"{by}: {len(await request.read())} bytes"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "demo", "choices": [choice]}
        usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
        return web.json_response({**whole, "usage": usage})

    return answer


class Stream:
    """A streamed response whose events are sent one by one, when the test lets them, to all of its requests at once."""

    def __init__(self, texts: Sequence[str] = ("one", "two", "three"), *, breaks: bool = False) -> None:
        """With `breaks`, the connection is aborted after the last of `texts`."""
        self._texts = texts
        self._breaks = breaks
        self._allowed = [asyncio.Event() for _ in range(len(texts) + 1)]
        self._allowed[0].set()
        self.begun = 0
        """The number of responses that have begun."""
        self.left = asyncio.Event()
        """Set when a client has disconnected."""

    def goes_on(self) -> None:
        """Lets one more event be sent, or the end. The first event is sent at once."""
        next(each for each in self._allowed if not each.is_set()).set()

    def ends(self) -> None:
        """Lets all remaining events be sent."""
        for each in self._allowed:
            each.set()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        try:
            await response.prepare(request)
            for text, allowed in zip(self._texts, self._allowed, strict=False):
                await allowed.wait()
                await response.write(chunk_of(text))
                self.begun += allowed is self._allowed[0]
            await self._allowed[-1].wait()
            if self._breaks:
                assert request.transport is not None
                request.transport.abort()
            await response.write(b"data: [DONE]\n\n")
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return response
