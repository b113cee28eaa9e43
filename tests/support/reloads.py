"""The application in this process, run from a file that changes while it runs, and plugins that record their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from app.reload import ReloadResult
from app.settings.layers import Sources
from containers.application import Application, load
from pointsman import Candidates, Endpoint, EndpointSink, InferenceRequest, MetricsRegistry, PluginName, PluginParams
from tests.support.running import FREE_PORTS, Running, serving

UNWATCHED = "reload: {watch: false}\npool: {scrape: {interval: 50ms}}\n"


@dataclass(frozen=True)
class Reloadable(Running):
    """A running application and its configuration file."""

    path: Path

    async def reload(self, text: str | None = None) -> ReloadResult:
        """Writes `text` to the file, if given, and reloads it."""
        if text is not None:
            self.path.write_text(text)
        outcome: ReloadResult = await self.process.reloader().reload()
        return outcome

    async def takes_over(self, text: str) -> None:
        """Reloads with `text`, which must be valid and differ from the current configuration."""
        outcome = await self.reload(text)
        assert (outcome.done, outcome.changed) == (True, True), str(outcome)

    def plugin(self, name: str) -> Any:
        """The instance of that name in the current generation."""
        return self.generation.plugins[name]()

    async def page(self, path: str, method: str = "GET") -> tuple[int, str]:
        """The status and text of an admin page."""
        async with self.client.request(method, f"{self.admin_url}{path}") as response:
            return response.status, await response.text()

    async def metric(self, name: str) -> str | None:
        """The value of a sample, by its name and labels as on the page; None if there is none."""
        _, text = await self.page("/metrics")
        lines = [line.rpartition(" ") for line in text.splitlines()]
        return next((value for sample, _, value in lines if sample == name), None)

    async def served_by(self, content: str) -> str:
        """The address that served a request."""
        async with self.chat(content) as response:
            await response.read()
            assert response.status == 200
            return response.headers["x-gateway-destination-endpoint-served"]


@asynccontextmanager
async def reloadable(folder: Path, text: str | None) -> AsyncIterator[Reloadable]:
    """`builtin:default` on free ports, overridden by the file `pointsman.yaml` in `folder`, which gets the content `text` if
    given. The file is watched if it says so."""
    base, path = folder / "base.yaml", folder / "pointsman.yaml"
    base.write_text(FREE_PORTS + UNWATCHED)
    if text is not None:
        path.write_text(text)
    application = Application(load(Sources(("builtin:default", str(base), str(path)))))
    async with serving(application) as app:
        yield Reloadable(app.application, app.client, path)


def endpoints(*ports: int) -> str:
    """The section `pool`: endpoints `e0`, `e1`, … on these ports."""
    items = ", ".join(f"{{name: e{row}, address: 127.0.0.1, port: {port}}}" for row, port in enumerate(ports))
    return f"pool: {{endpoints: [{items}]}}\n"


# -- plugins, configured by the address of their class


class Telling:
    """A scorer with a lifecycle and a metric, which records in `diary` what happens to it."""

    diary: ClassVar[list[str]] = []
    gate: ClassVar[asyncio.Event | None] = None
    """What `start` waits for, if the parameter `waits` is set."""

    class Params(PluginParams):
        """What it does."""

        note: str = ""
        waits: bool = False
        stops_slowly: bool = False
        fails: str = ""

    def __init__(self, params: Params, name: PluginName, registry: MetricsRegistry) -> None:
        from prometheus_client import Counter  # noqa: PLC0415

        self.params = params
        self.label = f"{name}{params.note}"
        self.count = Counter("told", "What it counts.", registry=registry)
        if params.fails == "built":
            raise LookupError("no such thing")

    async def start(self) -> None:
        self.diary.append(f"start {self.label}")
        if self.params.fails == "started":
            raise LookupError("can't begin")
        if self.params.fails == "ended":
            raise SystemExit("enough")
        if self.params.waits and self.gate is not None:
            await self.gate.wait()

    async def stop(self) -> None:
        self.diary.append(f"stop {self.label}")
        if self.params.stops_slowly and self.gate is not None:
            await self.gate.wait()
            self.diary.append(f"stopped {self.label}")

    def score(self, request: InferenceRequest, candidates: Candidates) -> Sequence[float]:
        self.count.inc()
        return [0.0] * len(candidates)

    def on_finished(self, request: InferenceRequest, decision: Any, outcome: Any) -> None:
        self.diary.append(f"finished {self.label}")


class Finding:
    """A discovery that finds one endpoint, only after the gate opens if the parameter `waits` is set."""

    running: ClassVar[list[str]] = []
    gate: ClassVar[asyncio.Event | None] = None

    class Params(PluginParams):
        """What it finds."""

        name: str = "found"
        port: int = 1
        waits: bool = False

    def __init__(self, params: Params) -> None:
        self.params = params

    def check(self) -> None:
        """Nothing to read."""

    async def discover(self, sink: EndpointSink) -> None:
        self.running.append(self.params.name)
        try:
            if self.params.waits and self.gate is not None:
                await self.gate.wait()
            sink.replace_all([Endpoint(self.params.name, "127.0.0.1", self.params.port)])
            await asyncio.Event().wait()
        finally:
            self.running.remove(self.params.name)


TELLING, FINDING = (f"{cls.__module__}:{cls.__name__}" for cls in (Telling, Finding))
