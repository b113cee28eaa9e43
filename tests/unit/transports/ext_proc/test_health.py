"""Health as gateways query it: over a gRPC channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest
from grpc_health.v1.health_pb2_grpc import HealthStub, add_HealthServicer_to_server

from app.transports.ext_proc import health
from app.transports.ext_proc.health import LIVENESS, READINESS, Health

SERVING, NOT_SERVING, UNKNOWN = (
    HealthCheckResponse.SERVING,
    HealthCheckResponse.NOT_SERVING,
    HealthCheckResponse.SERVICE_UNKNOWN,
)
GUARD = 10


class Client:
    """A client of a health service, and the state that the service reports."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.ready = True
        self.stub = HealthStub(channel)

    async def status(self, service: str) -> int:
        response = await self.stub.Check(HealthCheckRequest(service=service), timeout=GUARD)
        return int(response.status)


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client of a service that checks its state often."""
    monkeypatch.setattr(health, "INTERVAL", 0.001)
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        client = Client(channel)
        add_HealthServicer_to_server(Health(lambda: client.ready), server)
        await server.start()
        yield client
        await server.stop(None)


@pytest.mark.parametrize("service", READINESS)
async def test_a_process_serves_when_it_is_ready(client: Client, service: str) -> None:
    found = []
    for ready in (True, False, True):
        client.ready = ready
        found.append(await client.status(service))
    assert found == [SERVING, NOT_SERVING, SERVING]


async def test_a_process_is_live_even_if_it_is_not_ready(client: Client) -> None:
    client.ready = False
    assert await client.status(LIVENESS) == SERVING


@pytest.mark.parametrize("service", ["x", "Readiness", "liveness "])
async def test_an_unknown_service_is_not_found(client: Client, service: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.status(service)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert repr(service) in str(caught.value.details())


@pytest.mark.parametrize(("ready", "expected"), [(True, SERVING), (False, NOT_SERVING)])
async def test_all_services_are_listed(client: Client, ready: bool, expected: int) -> None:
    client.ready = ready
    response = await client.stub.List(HealthListRequest(), timeout=GUARD)
    found = {name: status.status for name, status in response.statuses.items()}
    assert found == {LIVENESS: SERVING, **dict.fromkeys(READINESS, expected)}


async def test_a_watch_gets_each_change(client: Client) -> None:
    async with asyncio.timeout(GUARD):
        watch = client.stub.Watch(HealthCheckRequest(service="readiness"))
        found = [(await watch.read()).status]
        for ready in (False, True):
            client.ready = ready
            found.append((await watch.read()).status)
        watch.cancel()
    assert found == [SERVING, NOT_SERVING, SERVING]


async def test_a_watch_of_an_unknown_service_says_so(client: Client) -> None:
    async with asyncio.timeout(GUARD):
        watch = client.stub.Watch(HealthCheckRequest(service="x"))
        assert (await watch.read()).status == UNKNOWN
        watch.cancel()


async def test_a_watch_gets_no_status_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "INTERVAL", 0.0)
    checks: list[bool] = []
    states = iter([True, True, True, False, False, True])

    def ready() -> bool:
        checks.append(next(states))
        return checks[-1]

    watch = Health(ready).Watch(HealthCheckRequest(), None)
    async with asyncio.timeout(GUARD):
        assert [(await anext(watch)).status for _ in range(3)] == [SERVING, NOT_SERVING, SERVING]
    assert len(checks) == 6
