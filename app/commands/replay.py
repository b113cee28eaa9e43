"""`pointsman replay`: runs a trace through one or several configurations, on simulated engines in virtual time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, TaskID

from app.commands.arguments import EXIT_FAULTS, add_configuration, sources_of
from app.commands.replaying import Scene, add_trace, replay_with, scene_of, summary_of
from app.observability.logging import set_up_logging
from app.settings.errors import UsageError
from app.settings.layers import Sources

if TYPE_CHECKING:
    from app.replay.run import Run

ORACLE = "greedy oracle"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    add_configuration(parser)
    add_trace(parser)
    parser.add_argument(
        "--against", action="append", default=[], metavar="FILE", help="a further configuration; may be repeated"
    )
    parser.add_argument("--oracle", action="store_true", help="add picks that know every cache and every queue")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture: .html, .png or .svg")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, or 1 if the trace has errors. Raises `ConfigurationError`, `UsageError`."""
    from app.replay.report import as_json, as_tables  # noqa: PLC0415 - loaded by this command only
    from app.replay.results import compare  # noqa: PLC0415

    set_up_logging(format="console", level="error")
    if arguments.plot is not None:
        _check_plot(arguments.plot)
    scene = scene_of(arguments)
    if scene is None:
        return EXIT_FAULTS
    first = sources_of(arguments)
    jobs: list[tuple[str, Sources | None]] = [(_name(first), first)]
    jobs += [(file, Sources((file,), environment=first.environment)) for file in arguments.against]
    if arguments.oracle:
        jobs.append((ORACLE, None))
    runs = _replay_all(scene, jobs, shown=not arguments.quiet and not arguments.json)
    summaries = [summary_of(name, one) for (name, _), one in zip(jobs, runs, strict=True)]
    comparisons = [compare(runs[0], other) for other in runs[1:]]
    titles = [name for name, _ in jobs]
    _print_faults(titles, runs)
    tables = as_tables(titles, summaries, comparisons, terminal=sys.stdout.isatty() and arguments.plot is None)
    if arguments.plot is not None:
        _write_plot(arguments.plot, titles, runs, tables)
    if arguments.json:
        print(json.dumps(as_json(titles, summaries, comparisons), indent=2))  # noqa: T201
    else:
        print(tables, end="")  # noqa: T201
    return 0


def _print_faults(names: Sequence[str], runs: Sequence[Run]) -> None:
    for name, run in zip(names, runs, strict=True):
        for fault, count in run.faults.items():
            print(f"{name}: {count} failures of the plugin {fault}", file=sys.stderr)  # noqa: T201 - a command's output


def _check_plot(path: Path) -> None:
    from app.replay.plot import PlotError, check_plot  # noqa: PLC0415

    try:
        check_plot(path)
    except PlotError as error:
        raise UsageError(str(error)) from None


def _write_plot(path: Path, names: Sequence[str], runs: Sequence[Run], tables: str) -> None:
    from app.replay.plot import plot  # noqa: PLC0415

    try:
        plot(path, names, runs, tables)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _replay_all(scene: Scene, jobs: Sequence[tuple[str, Sources | None]], *, shown: bool) -> list[Run]:
    console = Console(file=sys.stderr)
    runs = []
    with Progress(console=console, transient=True, disable=not shown or not console.is_terminal) as bar:
        for name, sources in jobs:
            task = bar.add_task(name, total=len(scene.requests))
            runs.append(replay_with(scene, sources, partial(_show, bar, task)))
    return runs


def _name(sources: Sources) -> str:
    """What a configuration is called in the tables: its files, and that there is text."""
    text = [] if sources.text is None else ["--config-text"]
    return " + ".join([*sources.files, *text]) or "builtin:default"


def _show(bar: Progress, task: TaskID, done: int) -> None:
    bar.update(task, completed=done)
