"""Health as gateways ask for it: over a channel of gRPC's own."""

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


class Asked:
    """A health service that is asked over a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.ready = True
        self.stub = HealthStub(channel)

    async def status(self, service: str) -> int:
        answer = await self.stub.Check(HealthCheckRequest(service=service), timeout=GUARD)
        return int(answer.status)


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """A service on a free port, which looks at its state often."""
    monkeypatch.setattr(health, "INTERVAL", 0.001)
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        given = Asked(channel)
        add_HealthServicer_to_server(Health(lambda: given.ready), server)
        await server.start()
        yield given
        await server.stop(None)


@pytest.mark.parametrize("service", READINESS)
async def test_a_process_serves_when_it_is_ready(asked: Asked, service: str) -> None:
    found = []
    for ready in (True, False, True):
        asked.ready = ready
        found.append(await asked.status(service))
    assert found == [SERVING, NOT_SERVING, SERVING]


async def test_a_process_lives_even_where_it_is_not_ready(asked: Asked) -> None:
    asked.ready = False
    assert await asked.status(LIVENESS) == SERVING


@pytest.mark.parametrize("service", ["x", "Readiness", "liveness "])
async def test_a_service_that_there_is_not_is_not_found(asked: Asked, service: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.status(service)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert repr(service) in str(caught.value.details())


@pytest.mark.parametrize(("ready", "expected"), [(True, SERVING), (False, NOT_SERVING)])
async def test_all_services_are_listed(asked: Asked, ready: bool, expected: int) -> None:
    asked.ready = ready
    answer = await asked.stub.List(HealthListRequest(), timeout=GUARD)
    found = {name: told.status for name, told in answer.statuses.items()}
    assert found == {LIVENESS: SERVING, **dict.fromkeys(READINESS, expected)}


async def test_who_watches_is_told_of_each_change(asked: Asked) -> None:
    async with asyncio.timeout(GUARD):
        watching = asked.stub.Watch(HealthCheckRequest(service="readiness"))
        found = [(await watching.read()).status]
        for ready in (False, True):
            asked.ready = ready
            found.append((await watching.read()).status)
        watching.cancel()
    assert found == [SERVING, NOT_SERVING, SERVING]


async def test_who_watches_a_service_that_there_is_not_is_told_so(asked: Asked) -> None:
    async with asyncio.timeout(GUARD):
        watching = asked.stub.Watch(HealthCheckRequest(service="x"))
        assert (await watching.read()).status == UNKNOWN
        watching.cancel()


async def test_who_watches_is_told_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "INTERVAL", 0.0)
    looks: list[bool] = []
    answers = iter([True, True, True, False, False, True])

    def ready() -> bool:
        looks.append(next(answers))
        return looks[-1]

    watching = Health(ready).Watch(HealthCheckRequest(), None)
    async with asyncio.timeout(GUARD):
        assert [(await anext(watching)).status for _ in range(3)] == [SERVING, NOT_SERVING, SERVING]
    assert len(looks) == 6
