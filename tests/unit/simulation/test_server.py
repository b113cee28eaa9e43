"""The simulated server, over loopback."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from app.fleet.exposition import Exposition
from app.simulation.engine import EngineOptions
from app.simulation.server import SERVER_HEADER, ServerOptions, SimulatedServer
from plugins.sources.core_metrics_extractor import CoreMetricsExtractor
from pointsman.testing import make_endpoint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FAST = EngineOptions(prefill_tokens_per_second=1e7, decode_tokens_per_second=1e4)
STILL = EngineOptions(decode_tokens_per_second=1e-3)
"""The second token takes a quarter of an hour."""

LONG = "The night train takes the second track. " * 20


class Client:
    """A client of one simulated server."""

    def __init__(self, server: SimulatedServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session
        self.base = f"http://127.0.0.1:{server.port}"

    def post(self, path: str, body: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.session.post(self.base + path, data=data, headers={"content-type": "application/json"})

    async def request(self, path: str, body: Any) -> tuple[int, Any]:
        async with self.post(path, body) as response:
            return response.status, await response.json()

    async def chat(self, content: str = LONG, **fields: Any) -> Any:
        status, response = await self.request("/v1/chat/completions", chat(content, **fields))
        assert status == 200
        return response

    async def stream(self, path: str, body: Any) -> list[Any]:
        async with self.post(path, body) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            text = (await response.read()).decode()
        events = [event.removeprefix("data: ") for event in text.removesuffix("\n\n").split("\n\n")]
        assert events.pop() == "[DONE]"
        return [json.loads(event) for event in events]

    async def get(self, path: str) -> tuple[int, bytes]:
        async with self.session.get(self.base + path) as response:
            return response.status, await response.read()


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Client]:
    server = SimulatedServer(ServerOptions(**{"engine": FAST, **options}))
    await server.start()
    try:
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            yield Client(server, session)
    finally:
        await server.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a fast server with two adapters."""
    async with serving(name="sim-0", adapters=("sql", "math")) as made:
        yield made


def chat(content: str = LONG, **fields: Any) -> dict[str, Any]:
    return {"model": "demo", "messages": [{"role": "user", "content": content}], **fields}


def completion(prompt: Any = LONG, **fields: Any) -> dict[str, Any]:
    return {"model": "demo", "prompt": prompt, **fields}


async def until(holds: Callable[[], bool]) -> None:
    """Runs the event loop until `holds`."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0)


async def test_a_chat_receives_a_complete_response(client: Client) -> None:
    response = await client.chat(max_tokens=5)
    (choice,) = response["choices"]
    assert (response["object"], response["model"], response["system_fingerprint"]) == (
        "chat.completion",
        "demo",
        "sim-0",
    )
    assert (choice["message"]["role"], choice["finish_reason"]) == ("assistant", "length")
    assert len(choice["message"]["content"].split()) == 5


async def test_a_completion_receives_a_complete_response(client: Client) -> None:
    status, response = await client.request("/v1/completions", completion(max_tokens=3))
    (choice,) = response["choices"]
    assert (status, response["object"], choice["index"]) == (200, "text_completion", 0)
    assert len(choice["text"].split()) == 3


async def test_every_prompt_of_a_completion_has_a_choice(client: Client) -> None:
    _, response = await client.request("/v1/completions", completion(["one", "two", LONG], max_tokens=3))
    assert [choice["index"] for choice in response["choices"]] == [0, 1, 2]
    assert response["usage"]["completion_tokens"] == 9


async def test_a_streamed_chat_has_the_text_of_a_complete_one(client: Client) -> None:
    whole = (await client.chat(max_tokens=9))["choices"][0]["message"]["content"]
    chunks = await client.stream("/v1/chat/completions", chat(max_tokens=9, stream=True))
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert ("".join(texts), len(texts)) == (whole, 10)


NEVER = EngineOptions(prefill_tokens_per_second=1e-3)
"""The first token takes hours."""


async def test_the_head_of_a_stream_may_come_at_accept() -> None:
    async with serving(engine=NEVER, early_heads=True) as client:
        async with client.post("/v1/chat/completions", chat(stream=True)) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await response.content.readany()


@pytest.mark.parametrize(("early", "stream"), [(False, True), (True, False)], ids=["not early", "no stream"])
async def test_other_heads_come_with_the_first_token(early: bool, stream: bool) -> None:
    async with serving(engine=NEVER, early_heads=early) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), client.post("/v1/chat/completions", chat(stream=stream)):
                pytest.fail("it responded")


async def test_a_stream_whose_head_is_early_is_complete() -> None:
    async with serving(early_heads=True) as client:
        chunks = await client.stream("/v1/chat/completions", chat(max_tokens=9, stream=True))
        assert len(chunks) == 10


async def test_an_early_head_leaves_errors_as_they_are() -> None:
    async with serving(early_heads=True) as client:
        assert (await client.request("/v1/chat/completions", chat(model="other", stream=True)))[0] == 404


async def test_a_streamed_chat_ends_with_its_finish_reason(client: Client) -> None:
    chunks = await client.stream("/v1/chat/completions", chat(max_tokens=2, stream=True))
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]


async def test_a_streamed_completion_has_the_text_of_a_complete_one(client: Client) -> None:
    _, whole = await client.request("/v1/completions", completion(max_tokens=9))
    chunks = await client.stream("/v1/completions", completion(max_tokens=9, stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]


async def test_a_completion_without_a_limit_stops_by_itself(client: Client) -> None:
    response = await client.chat()
    assert response["choices"][0]["finish_reason"] == "stop"
    assert 16 <= response["usage"]["completion_tokens"] < 64


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
async def test_the_length_of_a_completion_is_limited(client: Client, key: str) -> None:
    assert (await client.chat(**{key: 7}))["usage"]["completion_tokens"] == 7


async def test_the_usage_adds_up_and_includes_cached_tokens(client: Client) -> None:
    first, second = [(await client.chat(max_tokens=4))["usage"] for _ in range(2)]
    prompt = first["prompt_tokens"]
    assert first == {
        "prompt_tokens": prompt,
        "completion_tokens": 4,
        "total_tokens": prompt + 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert second["prompt_tokens_details"] == {"cached_tokens": (prompt - 1) // 16 * 16}


async def test_prompts_with_different_salts_share_no_cache(client: Client) -> None:
    await client.chat(cache_salt="one")
    response = await client.chat(cache_salt="two")
    assert response["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_a_stream_has_usage_only_if_requested(client: Client, path: str) -> None:
    body = chat() if "chat" in path else completion()
    plain = await client.stream(path, {**body, "max_tokens": 2, "stream": True})
    asked = await client.stream(
        path, {**body, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    )
    assert not any("usage" in chunk for chunk in plain)
    assert (asked[-1]["choices"], asked[-1]["usage"]["completion_tokens"]) == ([], 2)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(None, id="nothing"),
        pytest.param({}, id="empty"),
        pytest.param({"include_usage": False}, id="no"),
        pytest.param({"include_usage": None}, id="null"),
    ],
)
async def test_stream_options_without_usage_are_accepted(client: Client, options: Any) -> None:
    chunks = await client.stream("/v1/chat/completions", chat(max_tokens=1, stream=True, stream_options=options))
    assert "usage" not in chunks[-1]


@pytest.mark.parametrize("model", ["demo", "sql", "math"])
async def test_the_model_and_its_adapters_respond(client: Client, model: str) -> None:
    assert (await client.chat(model=model, max_tokens=1))["model"] == model


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_an_unknown_model_is_not_found(client: Client, path: str) -> None:
    status, response = await client.request(path, {**chat(), **completion(), "model": "other"})
    assert (status, response["error"]["code"], "other" in response["error"]["message"]) == (404, 404, True)


BAD = [
    pytest.param("/v1/chat/completions", b"", id="empty body"),
    pytest.param("/v1/chat/completions", b"{", id="broken JSON"),
    pytest.param("/v1/chat/completions", b"[]", id="a list"),
    pytest.param("/v1/chat/completions", {"model": "demo"}, id="no messages"),
    pytest.param("/v1/chat/completions", {"model": "demo", "messages": []}, id="empty messages"),
    pytest.param("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, id="no model"),
    pytest.param("/v1/completions", {"model": "demo"}, id="no prompt"),
    pytest.param("/v1/completions", {"model": "demo", "prompt": ""}, id="empty prompt"),
    pytest.param("/v1/completions", {"model": "demo", "prompt": "x" * 300_000}, id="prompt over the cache"),
    pytest.param("/v1/completions", {"model": "demo", "prompt_embeds": "AAAA"}, id="embeddings for a prompt"),
    pytest.param("/v1/chat/completions", chat(stream=True, stream_options="usage"), id="text for stream options"),
]


@pytest.mark.parametrize(("path", "body"), BAD)
async def test_an_invalid_request_is_rejected(client: Client, path: str, body: Any) -> None:
    status, response = await client.request(path, body)
    assert (status, response["error"]["type"]) == (400, "BadRequestError")


async def test_a_lone_surrogate_in_a_message_is_accepted(client: Client) -> None:
    body = b'{"model": "demo", "messages": [{"role": "user", "content": "\\ud800"}], "max_tokens": 1}'
    async with client.post("/v1/chat/completions", body) as response:
        assert response.status == 200


async def test_an_invalid_prompt_aborts_the_valid_ones() -> None:
    async with serving(engine=STILL) as client:
        status, _ = await client.request("/v1/completions", completion(["short", "x" * 300_000]))
        assert (status, client.server.engine.has_work, client.server._tokens) == (400, False, {})


async def test_the_models_are_listed_with_their_parent(client: Client) -> None:
    _, body = await client.get("/v1/models")
    cards = json.loads(body)["data"]
    assert [(card["id"], card["parent"]) for card in cards] == [("demo", None), ("sql", "demo"), ("math", "demo")]


async def test_the_health_check_succeeds(client: Client) -> None:
    assert (await client.get("/health"))[0] == 200


async def test_every_response_names_its_server(client: Client) -> None:
    for stream in (False, True):
        async with client.post("/v1/chat/completions", chat(max_tokens=1, stream=stream)) as response:
            assert response.headers[SERVER_HEADER] == "sim-0"
            await response.read()


async def test_only_servers_with_the_same_seed_give_the_same_text() -> None:
    said = []
    for seed in (1, 1, 2):
        async with serving(seed=seed) as client:
            said.append((await client.chat(max_tokens=16))["choices"][0]["message"]["content"])
    assert (said[0] == said[1], said[0] == said[2]) == (True, False)


async def test_the_metrics_extractor_reads_the_metrics_page(client: Client) -> None:
    response = await client.chat(max_tokens=4)
    status, page = await client.get("/metrics")
    metrics = CoreMetricsExtractor(CoreMetricsExtractor.Params()).extract(make_endpoint(), Exposition(page))
    assert (status, metrics.waiting, metrics.running, metrics.kv_cache_usage) == (200, 0.0, 0.0, 0.0)
    assert (metrics.engine, metrics.block_size, metrics.num_blocks) == ("vllm", 16, FAST.num_gpu_blocks)
    names = ["vllm:prompt_tokens_total", "vllm:generation_tokens_total"]
    counted = Exposition(page).samples(names)
    assert [counted[name][0].value for name in names] == [response["usage"]["prompt_tokens"], 4]


async def test_the_metrics_page_has_load_and_adapters() -> None:
    engine = EngineOptions(max_num_seqs=1, decode_tokens_per_second=1e-3, max_loras=3)
    async with serving(engine=engine, adapters=("sql", "math")) as client:
        asked = [asyncio.create_task(client.chat(model=model)) for model in ("sql", "math")]
        await until(lambda: len(client.server.engine.running) == len(client.server.engine.waiting) == 1)
        _, page = await client.get("/metrics")
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    metrics = CoreMetricsExtractor(CoreMetricsExtractor.Params()).extract(make_endpoint(), Exposition(page))
    assert (metrics.waiting, metrics.running, metrics.max_adapters) == (1.0, 1.0, 3)
    assert metrics.running_adapters | metrics.waiting_adapters == {"sql", "math"}


@pytest.mark.parametrize("stream", [pytest.param(False, id="whole"), pytest.param(True, id="streamed")])
async def test_the_sequence_of_a_disconnected_client_is_aborted(stream: bool) -> None:
    async with serving(engine=STILL) as client:
        asked = asyncio.create_task(client.chat(stream=stream))
        await until(lambda: bool(client.server.engine.running))
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: not client.server.engine.has_work)
        assert (client.server.engine.cache.usage, client.server._tokens) == (0.0, {})


async def test_the_sequence_of_a_client_that_disconnects_mid_stream_is_aborted() -> None:
    async with serving(engine=STILL) as client:
        async with client.post("/v1/chat/completions", chat(stream=True)) as response:
            assert (await response.content.readline()).startswith(b"data: ")
            response.close()
        await until(lambda: not client.server.engine.has_work)
        assert client.server.engine.cache.usage == 0.0


async def test_a_stopped_server_aborts_its_responses() -> None:
    async with serving(engine=STILL) as client:
        asked = asyncio.create_task(client.chat())
        await until(lambda: bool(client.server.engine.running))
        await client.server.stop()
        (failure,) = await asyncio.gather(asked, return_exceptions=True)
    assert isinstance(failure, aiohttp.ClientError)


async def test_a_port_in_use_is_an_error() -> None:
    async with serving() as client:
        other = SimulatedServer(ServerOptions(port=client.server.port))
        with pytest.raises(OSError):
            await other.start()
        await other.stop()


async def test_a_server_that_was_not_started_can_be_stopped() -> None:
    await SimulatedServer(ServerOptions()).stop()
