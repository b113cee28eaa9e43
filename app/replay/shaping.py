"""Changes the arrivals of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from app.replay.trace import TraceRequest

BURST = 0.1
"""Share of a window in which its requests arrive."""


def cut(requests: Sequence[TraceRequest], seconds: float) -> Sequence[TraceRequest]:
    """The requests of the first `seconds`."""
    return [request for request in requests if request.arrival < seconds]


def faster(requests: Sequence[TraceRequest], factor: float) -> Sequence[TraceRequest]:
    """All arrivals, `factor` times as fast."""
    return [replace(request, arrival=request.arrival / factor) for request in requests]


def offered_load(requests: Sequence[TraceRequest], capacity: float) -> float:
    """Prompt tokens per second over `capacity`, the tokens per second of all engines. Caches are not counted."""
    duration = requests[-1].arrival
    return sum(request.prompt_tokens for request in requests) / (capacity * duration) if duration else 0.0


def at_load(requests: Sequence[TraceRequest], load: float, capacity: float) -> Sequence[TraceRequest]:
    """The requests at such a speed that `offered_load` is `load`. Unchanged if all arrive at once."""
    offered = offered_load(requests, capacity)
    return faster(requests, load / offered) if offered else requests


def in_bursts(requests: Sequence[TraceRequest], window: float) -> Sequence[TraceRequest]:
    """All arrivals of each `window` seconds, within its first tenth."""
    moved = []
    for request in requests:
        start = request.arrival // window * window
        moved.append(replace(request, arrival=start + (request.arrival - start) * BURST))
    return moved


def chosen(count: int, share: float, seed: int) -> frozenset[int]:
    """The numbers of about `share` of `count` requests, the same for the same seed."""
    random = Random(seed)
    return frozenset(number for number in range(count) if random.random() < share)
