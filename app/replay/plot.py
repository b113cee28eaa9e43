"""Results as a picture: times to first token, and the load of each endpoint. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

from app.replay.run import Run

FORMATS = (".html", ".png", ".svg")

WINDOWS = 60
"""Parts of the trace over whose requests a mean is taken."""


class PlotError(Exception):
    """The picture can't be made."""


def check_plot(path: Path) -> None:
    """Raises `PlotError` if a picture can't be written to `path`: before a replay that takes long."""
    if path.suffix not in FORMATS:
        raise PlotError(
            f"{path}: expected a file that ends in one of {', '.join(FORMATS)}, found {path.suffix or 'no ending'}"
        )
    if not path.absolute().parent.is_dir():
        raise PlotError(f"{path}: the folder does not exist")
    _matplotlib()


def plot(path: Path, names: Sequence[str], runs: Sequence[Run], table: str) -> None:
    """Writes the picture; an HTML page also has the `table`. Raises `PlotError`, `OSError`."""
    figure = _figure(names, runs)
    if path.suffix == ".html":
        svg = StringIO()
        figure.savefig(svg, format="svg")
        path.write_text(_page(svg.getvalue(), table))
    else:
        figure.savefig(path)


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise PlotError("a plot needs matplotlib: pip install 'pointsman[replay]'") from error
    return Figure


def _figure(names: Sequence[str], runs: Sequence[Run]) -> Any:
    figure = _matplotlib()(figsize=(12, 4 + 2.5 * len(runs)), layout="constrained")
    grid = figure.add_gridspec(1 + len(runs), 2)
    over_time, cumulated = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    for name, run in zip(names, runs, strict=True):
        served = [(one.arrival, one.ttft) for one in run.requests if one.ttft is not None and not one.foreign]
        times, means = _means(served)
        over_time.plot(times, means, label=name)
        ttfts = sorted(ttft for _, ttft in served)
        cumulated.plot(ttfts, [(number + 1) / len(ttfts) for number in range(len(ttfts))], label=name)
    over_time.set(title="Mean time to first token", xlabel="arrival, s", ylabel="s")
    cumulated.set(title="Share of requests with a first token by then", xlabel="s", ylim=(0, 1), xscale="log")
    over_time.legend()
    for row, (name, run) in enumerate(zip(names, runs, strict=True), start=1):
        axes = figure.add_subplot(grid[row, :])
        for endpoint, queue in enumerate(run.queues):
            axes.step([time for time, _ in queue], [count for _, count in queue], label=f"e{endpoint}", linewidth=0.7)
        axes.set(title=f"Requests in each engine: {name}", xlabel="s")
    return figure


def _means(served: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The mean time to first token of each part of the trace that has requests."""
    width = max(served[-1][0] / WINDOWS, 1e-9)
    windows: dict[int, list[float]] = {}
    for arrival, ttft in served:
        windows.setdefault(int(arrival / width), []).append(ttft)
    return [width * number for number in windows], [sum(found) / len(found) for found in windows.values()]


def _page(svg: str, table: str) -> str:
    picture = svg[svg.index("<svg") :]
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8><title>Replay</title>\n"
        "<style>body{font-family:sans-serif;max-width:75rem;margin:1rem auto;padding:0 1rem}svg{width:100%;height:auto}"
        f"pre{{overflow-x:auto}}</style>\n<h1>Replay</h1>\n<pre>{escape(table)}</pre>\n{picture}\n</html>\n"
    )
