"""The Go picker's tests of its protocol, each with the outcome that `tests/data/protocol.yaml` says."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Self

import grpc.aio
import orjson
import pytest
import yaml
from aiohttp import web
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from envoy.service.ext_proc.v3.external_processor_pb2_grpc import ExternalProcessorStub
from google.protobuf.json_format import MessageToDict, ParseDict
from prometheus_client import generate_latest

from app.domain.endpoint import Endpoint
from app.domain.metrics import EndpointMetrics
from app.fleet.monitor import Binding, FleetMonitor, MonitorOptions
from app.fleet.pool import EndpointPool
from containers.application import Application
from plugins.sources.metrics_data_source import MetricsDataSource
from pointsman.testing import FakeClock, make_endpoint
from tests.e2e import test_conformance
from tests.support.picking import picking, port_of
from tests.support.running import until

Row = Mapping[str, Any]
Json = dict[str, Any]

DATA = Path(__file__).parents[1] / "data"
TABLE: Mapping[str, Any] = yaml.safe_load((DATA / "protocol.yaml").read_text(encoding="utf-8"))
ROWS: Sequence[Row] = TABLE["rows"]
LAST, LAST_CONFORMANCE = 84, 14
KINDS = {"messages", "scenario", "reason"}
IN_A_ROW = {"id", "title", "configuration", "extProc", "endpoints", "scraped", "metrics", "differs", "fault", *KINDS}
DESTINATION, SERVED = "x-gateway-destination-endpoint", "x-gateway-destination-endpoint-served"
SCORES = "x-gateway-destination-endpoint-scores"
GUARD = 10


def rows_with(kind: str, *, conformance: bool = False) -> Iterator[Any]:
    """A parameter for each row of this kind; one with a fault is expected to fail."""
    for row in ROWS:
        if kind in row and str(row["id"]).startswith("f") == conformance:
            marks = [pytest.mark.xfail(reason=row["fault"], strict=True)] if "fault" in row else []
            yield pytest.param(row, id=f"{row['id']} {row['title']}", marks=marks)


# -- rows of messages


@pytest.mark.parametrize("row", [*rows_with("messages")])
async def test_a_row_of_messages_is_answered_as_it_says(row: Row) -> None:
    async with asyncio.timeout(GUARD), fleet_of(row) as addresses, picker_of(row, addresses) as picker:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port_of(picker)}") as channel:
            stream = ExternalProcessorStub(channel).Process()
            for message in row["messages"]:
                await stream.write(request_of(message))
                expected = [expected_of(answer, addresses) for answer in message.get("answers", ())]
                assert [described(await stream.read()) for _ in expected] == expected
            await stream.done_writing()
            assert await stream.read() is grpc.aio.EOF
            assert await stream.code() is grpc.StatusCode.OK
        assert picker.process.in_flight().total == 0
        page = metrics_of(picker)
        assert {name: page.get(name) for name in row["metrics"]} == row["metrics"]


@asynccontextmanager
async def fleet_of(row: Row) -> AsyncIterator[Mapping[int, str]]:
    """Addresses of the row's endpoints, by number."""
    if not row.get("scraped"):
        yield {spec[0]: f"192.168.1.{spec[0] + 1}:8000" for spec in row.get("endpoints", ())}
        return
    async with AsyncExitStack() as servers:
        ports = {spec[0]: await servers.enter_async_context(engine(spec)) for spec in row.get("endpoints", ())}
        yield {number: f"127.0.0.1:{port}" for number, port in ports.items()}


@asynccontextmanager
async def engine(spec: Sequence[Any]) -> AsyncIterator[int]:
    """A model server with a metrics page of vLLM's; gives its port."""
    _, waiting, usage, *adapters = spec
    page = f"vllm:num_requests_waiting {waiting}\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc {usage}\n"
    lora = f'max_lora="{len(adapters)}",running_lora_adapters="{",".join(adapters)}",waiting_lora_adapters=""'
    page += f"vllm:lora_requests_info{{{lora}}} 1.7e9\n"

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=page)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class NobodyWatches:
    """In the monitor's place: what the pool is told stays as it is."""

    def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def initial_scrape(self, timeout: float) -> None:  # noqa: ASYNC109
        pass

    async def refresh_models(self) -> None:
        pass


@asynccontextmanager
async def picker_of(row: Row, addresses: Mapping[int, str]) -> AsyncIterator[Application]:
    """The application as the row wants it, with the metrics of its endpoints known."""
    endpoints = [
        {"name": f"pod-{number}", "address": address.partition(":")[0], "port": int(address.partition(":")[2])}
        for number, address in addresses.items()
    ]
    configuration = {
        **yaml.safe_load(TABLE["configurations"][row.get("configuration", "usual")]),
        "pool": {"endpoints": endpoints, "models": {"interval": "0s"}, "scrape": {"interval": "50ms"}},
    }
    instead = {} if row.get("scraped") else {"monitor": NobodyWatches()}
    async with picking(configuration, ext_proc=row.get("extProc"), **instead) as picker:
        pool = picker.generation.pool()
        for number, waiting, usage, *adapters in row.get("endpoints", ()) if instead else ():
            metrics = EndpointMetrics(
                waiting=waiting,
                running=0,
                kv_cache_usage=usage,
                running_adapters=frozenset(adapters),
                max_adapters=len(adapters),
            )
            pool.record(pool.get(f"pod-{number}"), metrics)
        yield picker


def metrics_of(picker: Application) -> Mapping[str, float]:
    """The metrics page."""
    lines = generate_latest(picker.process.registry()).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


# -- messages as the table writes them


def request_of(message: Json) -> ProcessingRequest:
    """The message that a row sends."""
    whole = {key: value for key, value in message.items() if key != "answers"}
    for key in ("requestHeaders", "responseHeaders"):
        if key in whole:
            whole[key] = {**whole[key], "headers": {"headers": header_list(whole[key]["headers"])}}
    for key in ("requestTrailers", "responseTrailers"):
        if key in whole:
            whole[key] = {"trailers": {"headers": header_list(whole[key]["trailers"])}}
    for key in ("requestBody", "responseBody"):
        if key in whole:
            body = {name: value for name, value in whole[key].items() if name not in ("body", "hex")}
            whole[key] = {**body, "body": base64.b64encode(bytes_of(whole[key])).decode()}
    return ParseDict(whole, ProcessingRequest())


def header_list(headers: Mapping[str, str]) -> Sequence[Json]:
    """Headers as Envoy sends them."""
    return [{"key": key, "rawValue": base64.b64encode(value.encode()).decode()} for key, value in headers.items()]


def bytes_of(body: Any) -> bytes:
    """A body that is text, or in `hex`."""
    if isinstance(body, str):
        return body.encode()
    return bytes.fromhex(body["hex"]) if "hex" in body else str(body["body"]).encode()


def expected_of(answer: Json, addresses: Mapping[int, str]) -> Json:
    """What `described` must say of the answer that a row writes briefly."""
    known = {"route", "set", "remove", "scores", "requestBody", "responseBody", "ends", "answer", "requestTrailers"}
    assert not answer.keys() - known - {"responseTrailers", "immediate", "grpc", "reason", "type", "message"}
    if "route" in answer:
        return routed(answer, addresses[answer["route"]])
    if "answer" in answer:
        marks = {"x-went-into-resp-headers": "true", "x-request-id": "test-request-id"}
        sets = {**marks, SERVED: addresses[answer["answer"]]}
        return {"responseHeaders": {"set": sets, "remove": answer.get("remove", []), "clearRouteCache": False}}
    if "immediate" in answer:
        return refused(answer)
    for kind in ("requestTrailers", "responseTrailers"):
        if kind in answer:
            return {kind: {}}
    kind = "requestBody" if "requestBody" in answer else "responseBody"
    return {kind: {"body": bytes_of(answer[kind]), "ends": answer.get("ends", False)}}


def routed(answer: Json, address: str) -> Json:
    told: Json = {DESTINATION: address}
    if "scores" in answer:
        told[SCORES] = pytest.approx(answer["scores"])
    sets = {DESTINATION: address, **answer.get("set", {})}
    changed = {"set": sets, "remove": sorted(answer.get("remove", ())), "clearRouteCache": True}
    return {"requestHeaders": changed, "dynamicMetadata": {"envoy.lb": told}}


def refused(answer: Json) -> Json:
    headers = {
        "content-type": "application/json",
        "x-llm-d-request-dropped-reason": answer["reason"],
        "x-request-id": "test-request-id",
    }
    error = {"message": answer["message"], "type": answer["type"], "param": None, "code": None}
    said = {"status": answer["immediate"], "grpc": answer["grpc"], "set": headers, "error": {"error": error}}
    return {"immediateResponse": {**said, "details": answer["reason"]}}


def described(response: ProcessingResponse) -> Json:
    """All that stands in a message, headers as mappings and bodies as bytes."""
    assert isinstance(response, ProcessingResponse), "the stream has ended"
    kind = response.WhichOneof("response")
    told = MessageToDict(response)
    content = told.pop(camel(kind))
    if kind == "immediate_response":
        said = response.immediate_response
        whole: Json = {"status": said.status.code, "grpc": said.grpc_status.status, "details": said.details}
        told[camel(kind)] = {**whole, "set": sets_of(content["headers"]), "error": orjson.loads(said.body)}
    elif kind in ("request_headers", "response_headers"):
        change = content.get("response", {})
        mutation = change.pop("headerMutation", {})
        whole = {"set": sets_of(mutation), "remove": sorted(mutation.get("removeHeaders", ()))}
        told[camel(kind)] = {**whole, "clearRouteCache": change.pop("clearRouteCache", False), **change}
    elif kind in ("request_body", "response_body"):
        streamed = getattr(response, kind).response.body_mutation.streamed_response
        assert set(content["response"]) == {"bodyMutation"}
        told[camel(kind)] = {"body": streamed.body, "ends": streamed.end_of_stream}
    else:
        told[camel(kind)] = content
    return told


def sets_of(mutation: Json) -> Mapping[str, str]:
    """The headers that are set, each in the place of what there was of that name."""
    sets = mutation.get("setHeaders", ())
    assert all(option["appendAction"] == "OVERWRITE_IF_EXISTS_OR_ADD" for option in sets)
    return {option["header"]["key"]: base64.b64decode(option["header"]["rawValue"]).decode() for option in sets}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


# -- rows about the reading of metrics


class Polling:
    """Endpoints that are read all the time, by `source` or this itself, with as many extractors as are wanted."""

    def __init__(self, extractors: int = 1, source: Any = None) -> None:
        self.asked: list[str] = []
        self.extracted: list[list[str]] = [[] for _ in range(extractors)]
        self.interval = None
        self.waiting = 4.0
        self.pool = EndpointPool(clock=FakeClock(), in_flight=lambda _: 0)
        self.pool.replace_all([make_endpoint("a")])
        self.monitor = FleetMonitor(
            pool=self.pool,
            bindings=[Binding(source or self, [Extracting(seen) for seen in self.extracted])],
            list_models=self.nothing,
            probe=self.nothing,
            clock=FakeClock(),
            random=Random(7),
            options=MonitorOptions(interval=0.001, timeout=GUARD, models_interval=0),
        )

    async def fetch(self, endpoint: Endpoint) -> float:
        self.asked.append(endpoint.name)
        return self.waiting

    async def nothing(self, endpoint: Endpoint, timeout: float) -> None:  # noqa: ASYNC109
        pass

    async def __aenter__(self) -> Self:
        self.monitor.start()
        await self.monitor.initial_scrape(GUARD)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.monitor.stop()


class ErrorPages:
    """An HTTP client for which every page is an error."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, url: str, **_: Any) -> Any:
        self.asked += 1
        return SimpleNamespace(status=500, body=b"vllm:num_requests_waiting 4\n")


class Extracting:
    """Remembers whose data it was given."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    def extract(self, endpoint: Endpoint, payload: float) -> EndpointMetrics:
        self._seen.append(endpoint.name)
        return EndpointMetrics(waiting=payload)


async def one_cycle() -> None:
    async with Polling() as polling:
        assert (polling.asked[0], polling.extracted[0][0]) == ("a", "a")


async def several_cycles() -> None:
    async with Polling() as polling:
        await until(lambda: len(polling.extracted[0]) >= 4)
        assert set(polling.asked) == {"a"}


async def metrics_received() -> None:
    async with Polling() as polling:
        assert polling.pool.candidates().waiting.tolist() == [4]
        polling.waiting = 9.0
        await until(lambda: polling.pool.candidates().waiting.tolist() == [9])


async def several_extractors() -> None:
    async with Polling(extractors=3) as polling:
        assert [seen[0] for seen in polling.extracted] == ["a", "a", "a"]


async def endpoint_gone() -> None:
    async with Polling() as polling:
        polling.pool.replace_all([make_endpoint("b")])
        await until(lambda: "b" in polling.asked)
        asked = polling.asked.count("a")
        await until(lambda: polling.asked.count("b") >= 4)
        assert polling.asked.count("a") == asked


async def no_extractors() -> None:
    async with Polling(extractors=0) as polling:
        await until(lambda: len(polling.asked) >= 2)
        (status,) = polling.pool.statuses()
        assert (status.up, status.metrics, status.reason) == (True, EndpointMetrics(), "")


async def error_page() -> None:
    pages = ErrorPages()
    async with Polling(source=MetricsDataSource(MetricsDataSource.Params(), pages)) as polling:
        await until(lambda: pages.asked >= 2)
        (status,) = polling.pool.statuses()
        assert (polling.extracted, status.metrics) == ([[]], None)
        assert status.reason.endswith("responded with status 500")


SCENARIOS: Mapping[str, Callable[[], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        one_cycle, several_cycles, metrics_received, several_extractors, endpoint_gone, no_extractors, error_page
    )
}  # fmt: skip


@pytest.mark.parametrize("row", [*rows_with("scenario")])
async def test_a_row_about_reading_metrics_holds(row: Row) -> None:
    async with asyncio.timeout(GUARD):
        await SCENARIOS[row["scenario"]]()


# -- the table itself


def test_each_row_of_the_table_is_there_once() -> None:
    numbers = [*range(1, LAST + 1), *(f"f{number}" for number in range(1, LAST_CONFORMANCE + 1))]
    assert [row["id"] for row in ROWS] == numbers


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row["id"])) for row in ROWS])
def test_a_row_has_messages_or_a_scenario_or_says_why_it_has_none(row: Row) -> None:
    assert not row.keys() - IN_A_ROW
    assert row["title"]
    (kind,) = KINDS & row.keys()
    assert row[kind]
    assert (kind == "messages") == ("metrics" in row)


def test_a_row_about_conformance_names_a_test() -> None:
    named = {row.values[0]["scenario"] for row in rows_with("scenario", conformance=True)}
    assert named == {name for name in vars(test_conformance) if name.startswith("test_")}


def test_a_scenario_belongs_to_a_row() -> None:
    assert {row.values[0]["scenario"] for row in rows_with("scenario")} == set(SCENARIOS)
