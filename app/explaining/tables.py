"""Renders an explanation as text tables: styled for a terminal, else plain and without line breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDE = 100_000
"""Columns when the output is not a terminal: nothing wraps."""

Content = Mapping[str, Any]
Column = tuple[str, Callable[[Content], str]]


def as_tables(content: Content, *, terminal: bool) -> str:
    """The whole explanation as text."""
    buffer = StringIO()
    console = Console(file=buffer, force_terminal=terminal, width=None if terminal else WIDE, highlight=False)
    for block in _blocks(content):
        console.print(block)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def _blocks(content: Content) -> Sequence[Text | Table | Padding]:
    return [
        *_request(content),
        Text(),
        *_endpoints(content["endpoints"], content["request"]["model"]),
        *(block for profile in content["profiles"] for block in _profile(profile, content["profile_picker"])),
        Text(),
        *_faults(content["faults"]),
        _end(content),
    ]


def _request(content: Content) -> Sequence[Text]:
    request = content["request"]
    model = f" for the model {request['model']!r}" if request["model"] else ""
    adapter = f" with the adapter {request['adapter']!r}" if request["adapter"] else ""
    size = f"about {request['prompt_tokens']} prompt tokens"
    lines = [Text(f"request: {request['method']} {request['path']}{model}{adapter}, {size}; seed {content['seed']}")]
    for key, value in request["facts"].items():
        shown = _pairs(value, " ") if isinstance(value, dict) else value
        lines.append(Text(f"fact: {key}: {'none' if shown is None else shown}"))
    return lines


def _endpoints(endpoints: Sequence[Content], model: str) -> Sequence[Text | Padding]:
    if not endpoints:
        return [Text("endpoints: none")]
    facts = list(endpoints[0]["facts"])
    columns: list[Column] = [
        ("endpoint", lambda one: one["name"]),
        ("address", lambda one: one["address"]),
        ("metrics", lambda one: one["metrics"]),
        ("waiting", lambda one: f"{one['waiting']:g}"),
        ("running", lambda one: f"{one['running']:g}"),
        ("KV cache", lambda one: f"{one['kv_cache_usage']:.3f}"),
        ("in flight", lambda one: str(one["in_flight"])),
        *((fact, lambda one, fact=fact: f"{one['facts'][fact]:g}") for fact in facts),
    ]
    optional: list[Column] = [
        ("engine", lambda one: one["engine"]),
        ("running adapters", lambda one: ", ".join(one["running_adapters"])),
        ("waiting adapters", lambda one: ", ".join(one["waiting_adapters"])),
        ("models", lambda one: "unknown" if one["models"] is None else ", ".join(one["models"])),
        ("labels", lambda one: _pairs(one["labels"], "=")),
    ]
    columns += [column for column in optional if {column[1](one) for one in endpoints} - {"", "unknown"}]
    blocks: list[Text | Padding] = [Text("endpoints"), _table(columns, endpoints)]
    if any(one["metrics"] == "unknown" for one in endpoints):
        note = "  unknown metrics: in flight stands in for waiting and running, the others' mean for KV cache"
        blocks.append(Text(note))
    left = [one["name"] for one in endpoints if not one["serves_model"]]
    if left:
        blocks.append(Text(f"  not candidates, because they do not list the model {model!r}: {', '.join(left)}"))
    return blocks


def _profile(profile: Content, profile_picker: str) -> Sequence[Text | Padding]:
    blocks: list[Text | Padding] = [Text(), _heading(f"profile {profile['name']!r}", f", chosen by {profile_picker}")]
    if profile["filters"]:
        columns: list[Column] = [
            ("filter", lambda step: step["name"]),
            ("kept", lambda step: str(len(step["kept"]))),
            ("dropped", lambda step: ", ".join(step["dropped"]) or "none"),
        ]
        blocks.append(_table(columns, profile["filters"]))
    if not profile["scores"]:
        return [*blocks, Text("  no endpoint is left")]
    blocks.append(_table(_score_columns(profile), profile["scores"]))
    return [*blocks, Text(f"  {profile['picker']} picked {', '.join(profile['picked'])}")]


def _score_columns(profile: Content) -> list[Column]:
    def scored(name: str) -> Callable[[Content], str]:
        return lambda row: f"{row['scorers'][name]['raw']:.3f} -> {row['scorers'][name]['weighted']:.3f}"

    def place(row: Content) -> str:
        name = row["endpoint"]
        return str(profile["picked"].index(name) + 1) if name in profile["picked"] else ""

    scorers = [(f"{one['name']} x {one['weight']:g}", scored(one["name"])) for one in profile["scorers"]]
    return [
        ("endpoint", lambda row: row["endpoint"]),
        *scorers,
        ("total", lambda row: f"{row['total']:.3f}"),
        ("pick", place),
    ]


def _faults(faults: Sequence[Content]) -> Sequence[Text | Padding]:
    if not faults:
        return []
    columns: list[Column] = [
        ("plugin", lambda fault: fault["plugin"]),
        ("as", lambda fault: fault["extension_point"]),
        ("fault", lambda fault: fault["cause"]),
    ]
    return [Text("plugins that failed"), _table(columns, faults), Text()]


def _end(content: Content) -> Text:
    winner, error = content["winner"], content["refusal"]
    if winner is not None:
        return _heading(
            f"winner: {winner['endpoint']}", f" at {winner['address']}, by the profile {winner['profile']!r}"
        )
    end = _heading(f"refused: {error['status']} {error['reason']}", f": {error['message']}")
    for left in error["left_none"]:
        end.append(f"\nthe filter {left['filter']!r} of the profile {left['profile']!r} dropped every endpoint")
    if not content["endpoints"]:
        end.append("\nthere are no endpoints: pass --endpoints, or set pool.endpoints in the configuration")
    return end


def _table(columns: Sequence[Column], rows: Sequence[Content]) -> Padding:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title, _ in columns:
        table.add_column(Text(title))
    for row in rows:
        table.add_row(*(Text(cell(row)) for _, cell in columns))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _heading(important: str, rest: str) -> Text:
    return Text.assemble((important, "bold"), rest)


def _pairs(values: Mapping[str, Any], between: str) -> str:
    return ", ".join(f"{name}{between}{value}" for name, value in values.items())
