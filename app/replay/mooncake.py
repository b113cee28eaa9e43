"""Traces in the format of Mooncake: JSON lines with `timestamp`, `input_length`, `output_length` and `hash_ids`.

Times are in milliseconds, lengths in tokens. Each hash id stands for 512 tokens of the prompt, the last one for the
rest. Source: https://github.com/kvcache-ai/Mooncake, FAST'25 traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.replay.trace import Segment, TraceRequest

BLOCK = 512
"""Tokens per hash id."""

FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")


def is_mooncake(fields: Mapping[str, Any]) -> bool:
    """Whether the first line of a trace is in this format."""
    return "hash_ids" in fields and "input_length" in fields


def read_mooncake(fields: Mapping[str, Any]) -> TraceRequest:
    """A line of a trace. Raises `ValueError` that says what was found and what was expected."""
    timestamp = _number(fields, "timestamp", least=0)
    tokens, output = int(_number(fields, "input_length", least=1)), int(_number(fields, "output_length", least=0))
    ids = fields.get("hash_ids")
    if not isinstance(ids, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
        raise ValueError(f"'hash_ids' must be a list of integers, found {ids!r:.60}")
    blocks = -(-tokens // BLOCK)
    if len(ids) != blocks:
        raise ValueError(f"a prompt of {tokens} tokens has {blocks} hash ids of {BLOCK} tokens, found {len(ids)}")
    prompt = tuple([Segment(min(BLOCK, tokens - BLOCK * number), one) for number, one in enumerate(ids)])
    return TraceRequest(timestamp / 1000, prompt, max(output, 1))


def _number(fields: Mapping[str, Any], name: str, *, least: int) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ValueError(f"{name!r} must be a number of at least {least}, found {value!r:.60}")
    return value
