"""A server of gRPC's asyncio API that decides nothing: what a picker costs that is written with it, at the least.

    python -m extproc.bare --socket PATH --destination HOST:PORT [--style context] [--join] [--option grpc.name=1]...

The styles are the ways in which gRPC lets a handler be written: `context` awaits `context.read()` and
`context.write()`, `generator` iterates over the requests and yields the answers, and `bytes` is `context` with messages
parsed and serialised by the handler itself.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import signal
from collections.abc import AsyncIterator

import grpc.aio
import uvloop
from envoy.service.ext_proc.v3.external_processor_pb2 import ProcessingRequest, ProcessingResponse
from extproc.answering import Answers

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
STYLES = ("context", "generator", "bytes")


class Bare:
    """The handlers."""

    def __init__(self, destination: str, *, join: bool) -> None:
        self._destination = destination
        self._join = join

    async def context(self, _: object, context: grpc.aio.ServicerContext) -> None:
        answers = Answers(self._destination, join=self._join)
        while not answers.ended and (message := await context.read()) is not grpc.aio.EOF:
            for response in answers.receive(message):
                await context.write(response)

    async def generator(
        self, requests: AsyncIterator[ProcessingRequest], _: grpc.aio.ServicerContext
    ) -> AsyncIterator[ProcessingResponse]:
        answers = Answers(self._destination, join=self._join)
        async for message in requests:
            for response in answers.receive(message):
                yield response
            if answers.ended:
                return

    async def bytes(self, _: object, context: grpc.aio.ServicerContext) -> None:
        answers = Answers(self._destination, join=self._join)
        while not answers.ended and (data := await context.read()) is not grpc.aio.EOF:
            for response in answers.receive(ProcessingRequest.FromString(data)):
                await context.write(response.SerializeToString())


async def serve(arguments: argparse.Namespace) -> None:
    """Until it is ended by a signal."""
    server = grpc.aio.server(options=[option(text) for text in arguments.option])
    handler = getattr(Bare(arguments.destination, join=arguments.join), arguments.style)
    messages = (
        () if arguments.style == "bytes" else (ProcessingRequest.FromString, ProcessingResponse.SerializeToString)
    )
    method = grpc.stream_stream_rpc_method_handler(handler, *messages)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": method}),))
    server.add_insecure_port(f"unix:{arguments.socket}")
    await server.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop(None)


def option(text: str) -> tuple[str, int | str]:
    """`name=value` as gRPC takes it."""
    name, _, value = text.partition("=")
    return name, int(value) if value.lstrip("-").isdigit() else value


def main() -> None:
    """Serves; with `--profile` the event loop's thread is profiled, and the profile written at the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--destination", required=True)
    parser.add_argument("--style", choices=STYLES, default="context")
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--profile")
    arguments = parser.parse_args()
    if not arguments.profile:
        uvloop.run(serve(arguments))
        return
    profile = cProfile.Profile()
    profile.enable()
    uvloop.run(serve(arguments))
    profile.disable()
    profile.dump_stats(arguments.profile)


if __name__ == "__main__":
    main()
