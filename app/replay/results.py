"""What a replay showed, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from app.replay.run import Run, Served

SHOWN = 5
"""Requests that are listed as those that cost most."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One replay. Times are in seconds; requests of other routers and refused ones do not count in them."""

    requests: int
    mean: float
    p50: float
    p90: float
    p99: float
    time_per_output_token: float
    """Mean over all requests of more than one token."""
    hit_share: float
    """Cached over all prompt tokens."""
    busiest: float
    """Uncached tokens of the busiest endpoint over the mean of all."""
    longest_queue: int
    """Most requests that waited in one engine."""
    preemptions: int
    refused: int


@dataclass(frozen=True, slots=True)
class Cost:
    """A request that went to different endpoints, and its time to first token at each, in seconds."""

    number: int
    endpoints: tuple[int, int]
    ttfts: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where two replays of the same trace differ."""

    differing: int
    """Requests that went to different endpoints."""
    compared: int
    ttfts: tuple[float, float]
    """Mean time to first token of the differing requests under each, in seconds."""
    costliest: Sequence[Cost]
    """The requests that lost most under the second one."""


def summarise(run: Run) -> Summary:
    """The numbers of one replay. Raises `ValueError` if no request was served."""
    served = [one for one in run.requests if not one.foreign and one.ttft is not None]
    if not served:
        raise ValueError("no request was served")
    ttfts = sorted(one.first_token - one.arrival for one in served if one.first_token is not None)
    each = [one for one in map(_per_output_token, served) if one is not None]
    mean_work = fmean(run.work)
    return Summary(
        requests=len(served),
        mean=fmean(ttfts),
        p50=quantile(ttfts, 0.5),
        p90=quantile(ttfts, 0.9),
        p99=quantile(ttfts, 0.99),
        time_per_output_token=fmean(each) if each else 0.0,
        hit_share=sum(one.cached_tokens for one in served) / sum(one.prompt_tokens for one in served),
        busiest=max(run.work) / mean_work if mean_work else 1.0,
        longest_queue=run.longest_queue,
        preemptions=run.preemptions,
        refused=sum(one.endpoint is None for one in run.requests if not one.foreign),
    )


def compare(first: Run, second: Run) -> Comparison:
    """Where the picks of two replays of the same trace differ, and what that cost."""
    costs = []
    compared = 0
    for number, (one, other) in enumerate(zip(first.requests, second.requests, strict=True)):
        if one.foreign or one.ttft is None or other.ttft is None or one.endpoint is None or other.endpoint is None:
            continue
        compared += 1
        if one.endpoint != other.endpoint:
            costs.append(Cost(number, (one.endpoint, other.endpoint), (one.ttft, other.ttft)))
    means = (fmean(cost.ttfts[0] for cost in costs), fmean(cost.ttfts[1] for cost in costs)) if costs else (0.0, 0.0)
    costliest = sorted(costs, key=lambda cost: cost.ttfts[0] - cost.ttfts[1])[:SHOWN]
    return Comparison(len(costs), compared, means, costliest)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The least value that at least `share` of the ascending values do not exceed."""
    return ordered[max(-(-int(share * 1_000_000) * len(ordered) // 1_000_000), 1) - 1]


def _per_output_token(served: Served) -> float | None:
    if served.first_token is None or served.end is None or served.output_tokens < 2:  # noqa: PLR2004
        return None
    return (served.end - served.first_token) / (served.output_tokens - 1)
