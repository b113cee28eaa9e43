"""The simulated model server: the OpenAI API over the engine model, in real time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from xxhash import xxh3_64_intdigest

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.openai import parse_openai
from app.simulation.engine import Engine, EngineOptions
from app.simulation.exposition import EngineMetrics
from app.simulation.sequences import EngineSequence
from app.simulation.text import natural_length, word

BODY_LIMIT = 64 * 1024 * 1024
SERVER_HEADER = "x-simulated-server"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a simulated server."""

    name: str = "sim"
    model: str = "demo"
    adapters: Sequence[str] = ()
    seed: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    """0 means any free port."""
    early_heads: bool = False
    """Whether heads of event streams are sent at accept, as vLLM does, and not with the first token."""
    engine: EngineOptions = field(default_factory=EngineOptions)


class SimulatedServer:
    """Serves chat, completions, models, health and metrics."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.engine = Engine(options.engine)
        self.port = options.port
        """The port in use after `start`."""
        self._metrics = EngineMetrics(self.engine, options.model)
        self._tokens: dict[EngineSequence, asyncio.Queue[int]] = {}
        self._work = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Opens the port and starts the engine. Raises `OSError` if the port is in use."""
        app = web.Application(client_max_size=BODY_LIMIT)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(
            app, handle_signals=False, handler_cancellation=True, access_log=None, shutdown_timeout=0.5
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, self.options.host, self.options.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]
        self._loop = asyncio.create_task(self._run_engine(), name=f"engine {self.options.name}")

    async def stop(self) -> None:
        """Closes the port and aborts responses in progress."""
        if self._loop is not None:
            self._loop.cancel()
            with suppress(asyncio.CancelledError):
                await self._loop
        if self._runner is not None:
            await self._runner.cleanup()

    async def _run_engine(self) -> None:
        """Runs the engine in real time. Delays of a step are compensated in the next ones."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if not self.engine.has_work:
                self._work.clear()
                await self._work.wait()
                due = loop.time()
            step = self.engine.step()
            due += step.duration
            await asyncio.sleep(max(due - loop.time(), 0))
            for sequence in step.advanced:
                queue = self._tokens.get(sequence)
                if queue is not None:
                    queue.put_nowait(sequence.generated)

    # -- the API

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        try:
            parsed = parse_openai(RawRequest("", request.path, body))
        except BadRequestError as error:
            return _error(400, str(error))
        served = (self.options.model, *self.options.adapters)
        if parsed.model not in served:
            return _error(404, f"The model `{parsed.model}` does not exist.", "NotFoundError")
        if not any(parsed.prompts):
            return _error(400, "the simulated engine supports text and token ids, but not embeddings")
        completions: list[_Completion] = []
        api_response = _ApiResponse(parsed, self.options, completions, chat=request.path.endswith("chat/completions"))
        try:
            for prompt in parsed.prompts:
                completions.append(self._submit(parsed, prompt))  # noqa: PERF401 - the `finally` aborts those submitted
            if parsed.streaming:
                return await self._stream(request, api_response, include_usage=_include_usage(body))
            return await self._respond(api_response)
        except ValueError as error:
            return _error(400, str(error))
        finally:
            for completion in completions:
                self.engine.abort(completion.sequence)
                del self._tokens[completion.sequence]

    def _submit(self, request: InferenceRequest, prompt: bytes) -> _Completion:
        key = xxh3_64_intdigest(prompt, self.options.seed)
        natural = natural_length(key)
        limit = request.max_output_tokens
        length = max(natural if limit is None else min(natural, limit), 1)
        adapter = request.model if request.model in self.options.adapters else None
        sequence = self.engine.submit(
            prompt, output_tokens=length, seed=(request.cache_salt or "").encode(), adapter=adapter
        )
        completion = _Completion(sequence, key, "stop" if length == natural else "length", asyncio.Queue())
        self._tokens[sequence] = completion.tokens
        self._work.set()
        return completion

    async def _respond(self, api_response: _ApiResponse) -> web.Response:
        for completion in api_response.completions:
            async for _ in completion.words():
                pass
        return web.json_response(api_response.complete(), headers={SERVER_HEADER: self.options.name})

    async def _stream(
        self, request: web.Request, api_response: _ApiResponse, *, include_usage: bool
    ) -> web.StreamResponse:
        headers = {"content-type": "text/event-stream; charset=utf-8", SERVER_HEADER: self.options.name}
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        opened = self.options.early_heads
        if opened:
            await response.prepare(request)
        for index, completion in enumerate(api_response.completions):
            async for text in completion.words():
                if not opened:
                    await response.prepare(request)
                    opened = True
                await response.write(_event(api_response.chunk(index, text)))
            await response.write(_event(api_response.chunk(index, None, completion.finish_reason)))
        if include_usage:
            await response.write(_event(api_response.usage_chunk()))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _models(self, _: web.Request) -> web.Response:
        model = {"object": "model", "created": 0, "owned_by": "pointsman"}
        cards = [{**model, "id": self.options.model, "parent": None}]
        cards += [{**model, "id": adapter, "parent": self.options.model} for adapter in self.options.adapters]
        return web.json_response({"object": "list", "data": cards})

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.page(), content_type="text/plain")

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()


@dataclass(frozen=True, slots=True)
class _Completion:
    """The completion of one prompt while it is generated."""

    sequence: EngineSequence
    key: int
    finish_reason: str
    tokens: asyncio.Queue[int]

    async def words(self) -> AsyncIterator[str]:
        """One word per token."""
        for index in range(self.sequence.output_tokens):
            await self.tokens.get()
            yield word(self.key, index)

    def text(self) -> str:
        return "".join(word(self.key, index) for index in range(self.sequence.output_tokens))


@dataclass(frozen=True, slots=True)
class _ApiResponse:
    """The response to a request, in the format of its API."""

    request: InferenceRequest
    options: ServerOptions
    completions: Sequence[_Completion]
    chat: bool
    created: int = field(default_factory=lambda: int(time.time()))

    def complete(self) -> Mapping[str, Any]:
        """The complete response."""
        choices = [
            {
                "index": index,
                "finish_reason": completion.finish_reason,
                **self._content("message", completion.text()),
            }
            for index, completion in enumerate(self.completions)
        ]
        name = "chat.completion" if self.chat else "text_completion"
        return {**self._head(name), "choices": choices, "usage": self._usage()}

    def chunk(self, index: int, text: str | None, finish_reason: str | None = None) -> Mapping[str, Any]:
        """A chunk of a streamed completion; the last one has no text."""
        choice = {"index": index, "finish_reason": finish_reason, **self._content("delta", text)}
        return {**self._head(self._chunk_name), "choices": [choice]}

    def usage_chunk(self) -> Mapping[str, Any]:
        """The final chunk with the usage, sent if the client requests it."""
        return {**self._head(self._chunk_name), "choices": [], "usage": self._usage()}

    @property
    def _chunk_name(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _content(self, key: str, text: str | None) -> Mapping[str, Any]:
        if not self.chat:
            return {"text": text or ""}
        return {key: {} if text is None else {"role": "assistant", "content": text}}

    def _head(self, name: str) -> Mapping[str, Any]:
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.completions[0].key:016x}",
            "object": name,
            "created": self.created,
            "model": self.request.model,
            "system_fingerprint": self.options.name,
        }

    def _usage(self) -> Mapping[str, Any]:
        sequences = [completion.sequence for completion in self.completions]
        prompt = sum(sequence.prompt_tokens for sequence in sequences)
        completion = sum(sequence.generated for sequence in sequences)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(sequence.cached_tokens for sequence in sequences)},
        }


def _include_usage(body: bytes) -> bool:
    options = json.loads(body).get("stream_options") or {}
    if not isinstance(options, dict):
        raise ValueError("'stream_options' must be a JSON object")  # noqa: TRY004 - reported to the client like other bad values
    return options.get("include_usage") is True


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def _error(status: int, message: str, kind: str = "BadRequestError") -> web.Response:
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return web.json_response(body, status=status)
