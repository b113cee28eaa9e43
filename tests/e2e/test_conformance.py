"""What the conformance tests of gateways ask of a picker, with a real Envoy: rows f of `tests/data/protocol.yaml`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest
import pytest_asyncio
from aiohttp import web

from tests.support.envoys import SERVED, Envoy, GatewayPool, envoy_in_front
from tests.support.picking import picking, port_of
from tests.unit.parsing.given import field

pytestmark = pytest.mark.asyncio(loop_scope="module")

PINNED = "test-epp-endpoint-selection"
REQUESTS, AT_ONCE = 100, 10
ENGINE, GENERATE = "vllm.grpc.engine.VllmEngine", "Generate"
BUFFERED = {"request_body_mode": "BUFFERED", "response_body_mode": "NONE"}
"""How bodies are told where requests must go on without a picker: what has been streamed to it, Envoy can't take back."""
BODY = {"model": "conformance-fake-model", "prompt": "Write as if you were a critic: San Francisco"}


@dataclass(frozen=True)
class World:
    """A gateway, and what stands behind it. Model servers of one IP address are the ranks of one pod."""

    envoy: Envoy
    client: aiohttp.ClientSession
    primary: Sequence[str]
    secondary: Sequence[str]
    over_grpc: Sequence[str]
    comes_and_goes: str
    """Where the picker of the path `/failopen` is called, if one is there; its pool is the secondary one."""

    async def served(self, path: str, pinned: str = "") -> Mapping[str, Any]:
        """A request with a body, and who got it and who is said to have got it."""
        headers = {PINNED: pinned} if pinned else {}
        async with self.client.post(f"{self.envoy.url}{path}", json=BODY, headers=headers) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            return {"by": body.decode(), "said": answer.headers.get(SERVED)}

    async def spread(self, pinned: Sequence[str]) -> Counter[str]:
        """How many of many requests each model server got."""
        requests = (self.served("/v1/completions", ",".join(pinned)) for _ in range(REQUESTS))
        return Counter(answer["by"] for answer in await asyncio.gather(*requests))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Three pods of three ranks each, three of one, two that speak gRPC; a picker for each of these pools."""
    folder: Path = tmp_path_factory.mktemp("pickers")
    comes_and_goes, never_there = f"unix:{folder}/failopen.sock", f"unix:{folder}/missing.sock"
    async with AsyncExitStack() as stack:
        pods = [f"127.0.0.{number}" for number in (1, 2, 3)]
        primary = await stack.enter_async_context(echoes(*(pod for pod in pods for _ in range(3))))
        secondary = await stack.enter_async_context(echoes(*pods))
        over_grpc = await stack.enter_async_context(grpc_echoes(*pods[:2]))
        pickers = [await stack.enter_async_context(picker_of(pool)) for pool in (primary, secondary, over_grpc)]
        gateway = envoy_in_front(
            GatewayPool(pickers[1], secondary, prefix="/secondary"),
            GatewayPool(comes_and_goes, secondary, prefix="/failopen", fail_open=True, processing=BUFFERED),
            GatewayPool(never_there, secondary, prefix="/missing"),
            GatewayPool(pickers[2], over_grpc, prefix=f"/{ENGINE}", h2=True),
            GatewayPool(pickers[0], primary),
        )
        envoy = await stack.enter_async_context(gateway)
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        yield World(envoy, client, primary, secondary, over_grpc, comes_and_goes)


@asynccontextmanager
async def echoes(*hosts: str) -> AsyncIterator[Sequence[str]]:
    """Model servers on free ports of these addresses, each of which answers with its own; gives the addresses."""

    async def echo(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        return web.Response(text="{}:{}".format(*request.transport.get_extra_info("sockname")))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for host in hosts:
            await web.TCPSite(runner, host, 0).start()
        yield ["{}:{}".format(*address) for address in runner.addresses]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def grpc_echoes(*hosts: str) -> AsyncIterator[Sequence[str]]:
    """The same with gRPC, and so with HTTP/2 alone."""
    servers, addresses = [], []
    for host in hosts:
        server = grpc.aio.server()
        address = f"{host}:{server.add_insecure_port(f'{host}:0')}"
        methods = {GENERATE: answering(address)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(ENGINE, methods),))
        await server.start()
        servers.append(server)
        addresses.append(address)
    try:
        yield addresses
    finally:
        await asyncio.gather(*(server.stop(0.1) for server in servers))


def answering(address: str) -> grpc.RpcMethodHandler:
    """A method that answers with the address."""

    async def answer(request: bytes, _: grpc.aio.ServicerContext) -> bytes:
        return address.encode()

    return grpc.unary_unary_rpc_method_handler(answer)


@asynccontextmanager
async def picker_of(addresses: Sequence[str], at: str = "") -> AsyncIterator[int]:
    """A picker of the endpoints that requests name; gives its port, or is called `at` a socket."""
    endpoints = []
    for address in addresses:
        host, _, port = address.partition(":")
        endpoints.append({"name": address, "address": host, "port": int(port)})
    configuration = {
        "plugins": [{"type": "header-based-testing-filter"}, {"type": "max-score-picker"}],
        "schedulingProfiles": [
            {
                "name": "default",
                "plugins": [{"pluginRef": "header-based-testing-filter"}, {"pluginRef": "max-score-picker"}],
            }
        ],
        "dataLayer": {"injectDefaults": False},
        "pool": {"endpoints": endpoints, "models": {"interval": "0s"}},
    }
    async with picking(configuration, ext_proc={"bind": at} if at else None) as picker:
        yield port_of(picker)


def host_of(address: str) -> str:
    return address.partition(":")[0]


# -- the picker is followed


async def test_an_answer_says_which_endpoint_served_it(world: World) -> None:
    for endpoint in world.primary:
        assert await world.served("/v1/completions", endpoint) == {"by": endpoint, "said": endpoint}


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_the_gateway_sends_requests_where_the_picker_says(world: World, count: int) -> None:
    hosts = sorted({host_of(address) for address in world.primary})[-count:]
    assert {host_of(address) for address in await world.spread(hosts)} == set(hosts)


async def test_the_gateway_sends_requests_to_the_rank_that_the_picker_says(world: World) -> None:
    one, two, three = (world.primary[at : at + 3] for at in (0, 3, 6))
    lists = {
        "any rank of one pod": ([host_of(one[0])], one),
        "one pod, and one rank of another": ([host_of(one[0]), two[1]], [*one, two[1]]),
        "two pods, and two ranks of the third": (
            [host_of(one[0]), host_of(two[0]), three[0], three[2]],
            [*one, *two, three[0], three[2]],
        ),
    }
    for which, (pinned, allowed) in lists.items():
        assert set(await world.spread(pinned)) == set(allowed), which


async def test_endpoints_may_speak_either_version_of_http(world: World) -> None:
    message = field(1, b"r1") + field(3, b"hello")
    async with grpc.aio.insecure_channel(world.envoy.url.removeprefix("http://")) as channel:
        generate = channel.unary_unary(f"/{ENGINE}/{GENERATE}")
        for endpoint in world.over_grpc:
            call = generate(message, metadata=((PINNED, endpoint),))
            assert await call == endpoint.encode()
            assert dict(await call.initial_metadata())[SERVED] == endpoint
    assert (await world.served("/v1/completions", world.primary[4]))["by"] == world.primary[4]


async def test_two_paths_lead_to_two_pools(world: World) -> None:
    for prefix, pool in {"/primary": world.primary, "/secondary": world.secondary}.items():
        for endpoint in pool:
            get = world.client.get(f"{world.envoy.url}{prefix}", headers={PINNED: endpoint})
            async with get as answer:
                assert (answer.status, await answer.text()) == (200, endpoint)


# -- without a picker


async def test_requests_go_on_without_a_picker_where_the_pool_fails_open(world: World) -> None:
    async with picker_of(world.secondary, world.comes_and_goes):
        for endpoint in world.secondary:
            assert await world.served("/failopen/v1/completions", endpoint) == {"by": endpoint, "said": endpoint}
    answers = [await world.served("/failopen/v1/completions", world.secondary[0]) for _ in range(20)]
    assert {answer["by"] for answer in answers} == set(world.secondary)
    assert {answer["said"] for answer in answers} == {None}


async def test_a_pool_whose_picker_is_not_there_answers_with_an_error(world: World) -> None:
    headers = {PINNED: world.secondary[0]}
    url = f"{world.envoy.url}/missing/v1/completions"
    async with world.client.post(url, json=BODY, headers=headers) as answer:
        assert answer.status in (500, 501, 502, 503, 504)
