"""`pointsman tune`: searches parameters and weights over a trace, and writes the best as an overlay."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from app.commands.arguments import EXIT_FAULTS, add_configuration, sources_of
from app.commands.replaying import Scene, add_trace, replay_with, scene_of, summary_of
from app.domain.ranges import Range, parse_range
from app.observability.logging import set_up_logging
from app.settings.errors import UsageError
from app.settings.sets import overlay

OBJECTIVES = ("mean", "p50", "p90", "p99")


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    add_trace(parser)
    parser.add_argument(
        "--range",
        dest="ranges",
        action="append",
        default=[],
        metavar="PATH=RANGE",
        help="what to search, such as 'plugins[token-load-producer].parameters.prefillRate=1000..20000', "
        "'schedulingProfiles[default].plugins[queue-scorer].weight=0..5' or '…=[16,64,256]'; may be repeated, "
        "and adds to the section `tune` of the configuration",
    )
    parser.add_argument("--trials", type=int, default=50, help="replays to try (default: 50)")
    parser.add_argument(
        "--objective", choices=OBJECTIVES, default="mean", help="time to first token to minimise (default: mean)"
    )
    parser.add_argument(
        "--hold-back",
        type=float,
        default=0.3,
        help="last share of the trace, on which the gain is measured (default: 0.3)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the overlay there instead of printing it")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, or 1 if the trace has errors. Raises `ConfigurationError`, `UsageError`."""
    from app.replay.tuning import TuningError, ends, search  # noqa: PLC0415 - loaded by this command only
    from containers.application import load  # noqa: PLC0415

    set_up_logging(format="console", level="error")
    _check(arguments)
    sources = sources_of(arguments)
    ranges = _ranges(load(sources).settings.tune.parameters, arguments.ranges)
    for sets in ends(ranges):
        load(replace(sources, sets=(*sources.sets, *sets)))  # reports a value that can't be, before a long search
    scene = scene_of(arguments)
    if scene is None:
        return EXIT_FAULTS
    searched, held_back = _split(scene, arguments.hold_back)

    def measured(part: Scene, sets: Sequence[str] = ()) -> float:
        tried = replace(sources, sets=(*sources.sets, *sets))
        value: float = getattr(summary_of("the configuration", replay_with(part, tried, _ignore)), arguments.objective)
        return value

    with _bar(arguments) as bar:
        task = bar.add_task("tuning", total=arguments.trials)
        try:
            best = search(
                ranges,
                lambda sets: measured(searched, sets),
                trials=arguments.trials,
                seed=arguments.seed,
                progress=lambda: bar.advance(task),
            )
        except TuningError as error:
            raise UsageError(str(error)) from None
    before, after = measured(held_back), measured(held_back, best)
    _print(arguments, best, before, after)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.trials < 1:
        raise UsageError(f"--trials: expected a whole number above 0, found {arguments.trials}")
    if not 0 < arguments.hold_back < 1:
        raise UsageError(f"--hold-back: expected a share between 0 and 1, found {arguments.hold_back}")
    if arguments.output is not None and not arguments.output.absolute().parent.is_dir():
        raise UsageError(f"--output: {arguments.output}: the folder does not exist")


def _ranges(configured: Mapping[str, str], given: Sequence[str]) -> Sequence[Range]:
    """Those of the configuration, and those of the command line, which win."""
    ranges = {path: parse_range(path, text) for path, text in configured.items()}
    seen: set[str] = set()
    for argument in given:
        path, equals, text = argument.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"--range {argument}: expected PATH=RANGE, such as plugins[x].parameters.y=0.1..10")
        if path in seen:
            raise UsageError(f"--range {path}: the range of this setting is given twice")
        seen.add(path)
        try:
            ranges[path] = parse_range(path, text)
        except ValueError as error:
            raise UsageError(f"--range {path}: {error}") from None
    if not ranges:
        raise UsageError("nothing to tune; name what to search by --range PATH=RANGE or in the section `tune`")
    return list(ranges.values())


def _split(scene: Scene, hold_back: float) -> tuple[Scene, Scene]:
    """The first part of the trace, for the search, and the last part."""
    at = round(len(scene.requests) * (1 - hold_back))
    if not 0 < at < len(scene.requests):
        raise UsageError(f"the trace is too short to hold back a part: {len(scene.requests)} requests")
    start = scene.requests[at].arrival
    last = [replace(request, arrival=request.arrival - start) for request in scene.requests[at:]]
    return (
        replace(scene, requests=scene.requests[:at], foreign=frozenset(n for n in scene.foreign if n < at)),
        replace(scene, requests=last, foreign=frozenset(n - at for n in scene.foreign if n >= at)),
    )


def _print(arguments: argparse.Namespace, best: Sequence[str], before: float, after: float) -> None:
    gain = 1 - after / before
    what = f"{arguments.objective} time to first token on the held-back {100 * arguments.hold_back:.0f} % of the trace"
    print(f"# {what}: {before:.3f} s before, {after:.3f} s with the best found: {100 * gain:+.1f} % gained")  # noqa: T201
    if gain <= 0:
        print("# No gain: the configuration as it is does as well there.")  # noqa: T201
    text = overlay(best)
    if arguments.output is None:
        print(text, end="")  # noqa: T201
        return
    try:
        arguments.output.write_text(f"# Found by `pointsman tune`; apply it on top of the configuration.\n{text}")
    except OSError as error:
        raise UsageError(f"--output: {arguments.output}: {error.strerror}") from error
    print(f"# written to {arguments.output}")  # noqa: T201


def _bar(arguments: argparse.Namespace) -> Progress:
    console = Console(file=sys.stderr)
    return Progress(console=console, transient=True, disable=arguments.quiet or not console.is_terminal)


def _ignore(_: int) -> None:
    pass
