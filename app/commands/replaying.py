"""What `replay` and `tune` share: the arguments for trace and engines, and a replay with a configuration."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from app.domain.durations import DURATION_DESCRIPTION, parse_duration
from app.lifecycle import lifecycles
from app.settings.errors import UsageError
from app.settings.layers import Sources

if TYPE_CHECKING:
    from app.replay.choosing import Chooser
    from app.replay.fleet import FleetOptions
    from app.replay.results import Summary
    from app.replay.run import Run
    from app.replay.synthetic import Synthetic
    from app.replay.trace import TraceRequest


@dataclass(frozen=True, slots=True)
class Scene:
    """What is replayed, and on what."""

    requests: Sequence[TraceRequest]
    foreign: frozenset[int]
    options: FleetOptions
    seed: int


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments for the trace and the engines."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--trace", type=Path, metavar="FILE", help="JSON lines, in Mooncake's format or of our access log"
    )
    source.add_argument(
        "--synthetic",
        type=_synthetic,
        metavar="NUMBERS",
        help="a trace made of numbers such as 'requests=2000,rate=10,prefixes=8,prefix-tokens=2048,prompt-tokens=1024,"
        "output-tokens=256,turns=3,burst=1'",
    )
    parser.add_argument(
        "--cut", type=_duration, metavar="DURATION", help="replay the beginning of the trace only, such as 900s"
    )
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument(
        "--load", type=_positive, help="speed at which prompt tokens are this share of what all engines can prefill"
    )
    speed.add_argument("--speed", type=_positive, help="speed up all arrivals by this factor")
    parser.add_argument(
        "--bursts",
        type=_duration,
        metavar="DURATION",
        help="move the arrivals of each window into its first tenth",
    )
    parser.add_argument(
        "--foreign", type=_share, default=0.0, help="share of the requests that another router sends (default: 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed for random choices (default: 0)")
    _add_engines(parser.add_argument_group("engines"))


def _add_engines(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument("--endpoints", type=_count, default=8, help="number of engines (default: 8)")
    parser.add_argument(
        "--prefill-rate", type=_positive, default=6400.0, help="prompt tokens per second (default: 6400)"
    )
    parser.add_argument(
        "--decode-rate", type=_positive, default=40.0, help="output tokens per second of a lone request (default: 40)"
    )
    parser.add_argument(
        "--decode-slowdown",
        type=_not_negative,
        default=0.01,
        help="share by which each further request slows decoding (default: 0.01)",
    )
    parser.add_argument("--max-num-seqs", type=_count, default=256, help="maximum requests in a batch (default: 256)")
    parser.add_argument(
        "--max-num-batched-tokens", type=_count, default=2048, help="maximum tokens in an iteration (default: 2048)"
    )
    parser.add_argument(
        "--num-gpu-blocks", type=_count, default=32768, help="KV-cache blocks of 16 tokens (default: 32768)"
    )
    parser.add_argument(
        "--slow",
        action="append",
        type=_slow,
        default=[],
        metavar="N=SHARE",
        help="speed of an engine, as a share of the others'",
    )


def scene_of(arguments: argparse.Namespace) -> Scene | None:
    """The trace, shaped as asked for, and the engines. None if the trace has errors, which are printed."""
    from app.replay import shaping  # noqa: PLC0415
    from app.replay.trace import TraceError  # noqa: PLC0415

    options = _options(arguments)
    try:
        requests = _requests(arguments)
    except TraceError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's output
        return None
    if arguments.cut is not None:
        requests = shaping.cut(requests, arguments.cut)
    if not requests:
        raise UsageError("no request is left of the trace")
    if arguments.load is not None:
        requests = shaping.at_load(requests, arguments.load, options.capacity)
    elif arguments.speed is not None:
        requests = shaping.faster(requests, arguments.speed)
    if arguments.bursts is not None:
        requests = shaping.in_bursts(requests, arguments.bursts)
    foreign = shaping.chosen(len(requests), arguments.foreign, arguments.seed)
    return Scene(requests, foreign, options, arguments.seed)


def summary_of(name: str, run: Run) -> Summary:
    """The numbers of the replay of the configuration `name`. Raises `UsageError` if no request was served."""
    from app.replay.results import summarise  # noqa: PLC0415

    try:
        return summarise(run)
    except ValueError as error:
        raise UsageError(f"{name}: {error}; all were refused, or sent by another router") from None


def _requests(arguments: argparse.Namespace) -> Sequence[TraceRequest]:
    """The trace as it is. Raises `TraceError`, `UsageError`."""
    from app.replay.formats import read_trace  # noqa: PLC0415
    from app.replay.synthetic import make_trace  # noqa: PLC0415

    if arguments.synthetic is not None:
        return make_trace(arguments.synthetic, arguments.seed)
    try:
        return read_trace(arguments.trace)
    except OSError as error:
        raise UsageError(f"{arguments.trace}: {error.strerror}") from error


def replay_with(scene: Scene, sources: Sources | None, progress: Callable[[int], None]) -> Run:
    """Replays the scene with a configuration, or with the oracle if that is None."""
    from app.replay.fleet import VirtualFleet  # noqa: PLC0415
    from app.replay.oracle import GreedyOracle  # noqa: PLC0415
    from app.replay.run import replay  # noqa: PLC0415

    fleet = VirtualFleet(scene.options)

    async def by(chooser: Chooser) -> Run:
        return await replay(scene.requests, fleet, chooser, foreign=scene.foreign, seed=scene.seed, progress=progress)

    if sources is None:
        return asyncio.run(by(GreedyOracle(fleet, Random(scene.seed))))
    return asyncio.run(_with_configuration(scene, sources, by))


async def _with_configuration(scene: Scene, sources: Sources, by: Callable[[Chooser], Awaitable[Run]]) -> Run:
    """Builds the configuration, with its plugins started, and replays with it."""
    from app.explaining.explanation import NoNetwork  # noqa: PLC0415
    from app.replay.configured import ConfiguredChooser, VirtualClock  # noqa: PLC0415
    from containers.application import Application, load  # noqa: PLC0415

    checked, clock = load(sources), VirtualClock()
    faults: Counter[str] = Counter()
    application = Application(
        checked,
        clock=clock,
        random=Random(scene.seed),
        http_client=NoNetwork(),
        fault_reporter=lambda fault: faults.update([f"{fault.plugin} ({fault.extension_point}): {fault.cause}"]),
    )
    application.verify(discovery=False)
    parts = application.generation
    plugins = lifecycles(parts.all_plugins())
    await plugins.start()
    chooser = ConfiguredChooser(
        parts.router(), parts.pool(), clock, scene.options.endpoints, checked.settings.pool.scrape.interval
    )
    try:
        run = await by(chooser)
        run.faults = dict(faults)
        return run
    finally:
        await plugins.stop()


def _options(arguments: argparse.Namespace) -> FleetOptions:
    from app.replay.fleet import FleetOptions  # noqa: PLC0415
    from app.simulation.engine import EngineOptions  # noqa: PLC0415

    speeds: dict[int, float] = {}
    for number, speed in arguments.slow:
        if number >= arguments.endpoints:
            raise UsageError(f"--slow {number}: there are only {arguments.endpoints} endpoints, counted from 0")
        if number in speeds:
            raise UsageError(f"--slow {number}: the speed of this endpoint is given twice")
        speeds[number] = speed
    engine = EngineOptions(
        max_num_seqs=arguments.max_num_seqs,
        max_num_batched_tokens=arguments.max_num_batched_tokens,
        num_gpu_blocks=arguments.num_gpu_blocks,
        prefill_tokens_per_second=arguments.prefill_rate,
        decode_tokens_per_second=arguments.decode_rate,
        decode_slowdown=arguments.decode_slowdown,
    )
    return FleetOptions(arguments.endpoints, engine, speeds)


def _synthetic(text: str) -> Synthetic:
    from app.replay.synthetic import parse_synthetic  # noqa: PLC0415

    try:
        return parse_synthetic(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, found {text!r}") from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected {DURATION_DESCRIPTION}, found {text!r}")
    return seconds


def _number(text: str, meant: str, *, ok: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not ok(value):
        raise argparse.ArgumentTypeError(f"expected {meant}, found {text!r}")
    return value


def _positive(text: str) -> float:
    return _number(text, "a number above 0", ok=lambda value: 0 < value < float("inf"))


def _not_negative(text: str) -> float:
    return _number(text, "a number of at least 0", ok=lambda value: 0 <= value < float("inf"))


def _share(text: str) -> float:
    return _number(text, "a share from 0 to below 1", ok=lambda value: 0 <= value < 1)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!r}")
    return int(text)


def _slow(text: str) -> tuple[int, float]:
    number, equals, share = text.partition("=")
    if not number.isdecimal() or not equals:
        raise argparse.ArgumentTypeError(f"expected an engine's number and its speed, such as 0=0.5, found {text!r}")
    return int(number), _positive(share)
