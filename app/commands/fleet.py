"""`pointsman fleet`: simulated model servers, each on a port of its own."""

from __future__ import annotations

import argparse

from app.commands.process import serve_until_stopped
from app.lifecycle import Component, ProcessRunner
from app.observability.logging import set_up_logging
from app.simulation.engine import EngineOptions
from app.simulation.server import ServerOptions, SimulatedServer

MAX_SERVERS = 100


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--count", type=_count, default=3, help="number of servers (default: 3)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port",
        type=int,
        default=18000,
        help="port of the first server, the others follow; 0 picks free ports (default: 18000)",
    )
    parser.add_argument("--name", default="sim", help="prefix of the names (default: sim)")
    parser.add_argument("--model", default="demo", help="the model to serve (default: demo)")
    parser.add_argument("--adapter", action="append", default=[], help="a LoRA adapter to serve; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same responses (default: 0)")
    options = EngineOptions()
    parser.add_argument("--max-num-seqs", type=int, default=options.max_num_seqs, help="maximum requests in a batch")
    parser.add_argument("--num-gpu-blocks", type=int, default=options.num_gpu_blocks, help="number of KV-cache blocks")
    parser.add_argument(
        "--prefill-rate", type=float, default=options.prefill_tokens_per_second, help="prompt tokens per second"
    )
    parser.add_argument(
        "--decode-rate",
        type=float,
        default=options.decode_tokens_per_second,
        help="output tokens per second and request",
    )
    parser.add_argument(
        "--early-heads", action="store_true", help="send heads of event streams at accept, not with the first token"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT."""
    set_up_logging(format="console", level="warning")
    engine = EngineOptions(
        max_num_seqs=arguments.max_num_seqs,
        num_gpu_blocks=arguments.num_gpu_blocks,
        prefill_tokens_per_second=arguments.prefill_rate,
        decode_tokens_per_second=arguments.decode_rate,
    )
    servers = [
        SimulatedServer(
            ServerOptions(
                name=f"{arguments.name}-{number}",
                model=arguments.model,
                adapters=tuple(arguments.adapter),
                seed=arguments.seed,
                host=arguments.host,
                port=arguments.port + number if arguments.port else 0,
                early_heads=arguments.early_heads,
                engine=engine,
            )
        )
        for number in range(arguments.count)
    ]
    return serve_until_stopped(_serve(servers))


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_SERVERS:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MAX_SERVERS}, found {text!r}")
    return int(text)


async def _serve(servers: list[SimulatedServer]) -> None:
    components = [Component(server.options.name, server.start, server.stop) for server in servers]
    await ProcessRunner(components, drain_delay=lambda: 0.0).run(ready=lambda: _print_addresses(servers))


def _print_addresses(servers: list[SimulatedServer]) -> None:
    for server in servers:
        options = server.options
        print(f"{options.name} serves {options.model} at http://{options.host}:{server.port}", flush=True)  # noqa: T201
