"""Results as tables for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from app.replay.results import Comparison, Summary

WIDTH = 140

_COLUMNS: Mapping[str, str] = {
    "mean": "TTFT mean s", "p50": "p50", "p90": "p90", "p99": "p99", "time_per_output_token": "TPOT ms",
    "hit_share": "hits", "busiest": "busiest/mean", "longest_queue": "longest queue", "refused": "refused",
}  # fmt: skip


def as_tables(
    names: Sequence[str], summaries: Sequence[Summary], comparisons: Sequence[Comparison], *, terminal: bool
) -> str:
    """A row per configuration, then what each further one picked otherwise than the first."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, force_terminal=terminal, highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("configuration")
    for title in _COLUMNS.values():
        table.add_column(title, justify="right")
    for name, summary in zip(names, summaries, strict=True):
        table.add_row(name, *(_shown(key, getattr(summary, key)) for key in _COLUMNS))
    console.print(table)
    for name, comparison in zip(names[1:], comparisons, strict=True):
        _print_comparison(console, names[0], name, comparison)
    return out.getvalue()


def as_json(names: Sequence[str], summaries: Sequence[Summary], comparisons: Sequence[Comparison]) -> Any:
    """All of it, for `json.dumps`."""
    return {
        "configurations": [{"name": name, **asdict(summary)} for name, summary in zip(names, summaries, strict=True)],
        "comparisons": [
            {"first": names[0], "second": name, **asdict(comparison)}
            for name, comparison in zip(names[1:], comparisons, strict=True)
        ],
    }


def _shown(key: str, value: float) -> str:
    if key == "time_per_output_token":
        return f"{1000 * value:.1f}"
    if key == "hit_share":
        return f"{100 * value:.1f} %"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _print_comparison(console: Console, first: str, second: str, found: Comparison) -> None:
    share = found.differing / found.compared if found.compared else 0.0
    console.print(
        f"\n{second} picked another endpoint than {first} for {found.differing} requests ({100 * share:.0f} %)"
    )
    if not found.differing:
        return
    console.print(f"their mean TTFT: {found.ttfts[0]:.3f} s with {first}, {found.ttfts[1]:.3f} s with {second}")
    table = Table(box=None, pad_edge=False)
    for title in ("request", first, "s", second, "s"):
        table.add_column(title, justify="right")
    for cost in found.costliest:
        table.add_row(
            str(cost.number),
            f"e{cost.endpoints[0]}", f"{cost.ttfts[0]:.3f}", f"e{cost.endpoints[1]}", f"{cost.ttfts[1]:.3f}",
        )  # fmt: skip
    console.print(table)
