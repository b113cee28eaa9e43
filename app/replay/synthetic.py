"""Traces made from a few numbers: conversations that share system prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random

from app.replay.trace import Segment, TraceRequest

UNIT = 64
"""Prompts are made of parts of so many tokens."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The numbers. Lengths are in tokens."""

    requests: int = 1000
    rate: float = 4.0
    """Mean arrivals per second."""
    prefixes: int = 8
    """System prompts that conversations share."""
    prefix_tokens: int = 2048
    prompt_tokens: int = 1024
    """Mean tokens that each turn adds."""
    output_tokens: int = 256
    """Mean tokens of a response."""
    turns: int = 3
    """Turns of a conversation; each begins with all that came before."""
    burst: int = 1
    """Requests that arrive together."""


def parse_synthetic(text: str) -> Synthetic:
    """Numbers such as `requests=2000,rate=10,prefix-tokens=4096`. Raises `ValueError`."""
    known = {field.name.replace("_", "-"): field for field in fields(Synthetic)}
    values: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ValueError(f"unknown number {name!r}; there are {', '.join(known)}")
        if known[name].name in values:
            raise ValueError(f"{name!r} is given twice")
        values[known[name].name] = _value(name, value, whole=known[name].name != "rate")
    return Synthetic(**values)  # type: ignore[arg-type]


def _value(name: str, text: str, *, whole: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    least = 0 if name in ("prefix-tokens", "prompt-tokens") else 1
    if whole and not (value >= least and value.is_integer()):
        raise ValueError(f"{name!r} must be a whole number of at least {least}, found {text!r}")
    if not 0 < value < float("inf") and not (whole and value == least):
        raise ValueError(f"{name!r} must be a number above 0, found {text!r}")
    return int(value) if whole else value


def make_trace(numbers: Synthetic, seed: int) -> Sequence[TraceRequest]:
    """The requests: exponential times between arrivals, exponential lengths. The same seed gives the same trace."""
    random = Random(seed)
    texts = _Texts()
    prefixes = [texts.new(numbers.prefix_tokens) for _ in range(numbers.prefixes)]
    conversations: list[_Conversation] = []
    made: list[TraceRequest] = []
    arrival = 0.0
    for number in range(numbers.requests):
        if number and number % numbers.burst == 0:
            arrival += random.expovariate(numbers.rate / numbers.burst)
        if len(conversations) < max(numbers.requests // (20 * numbers.turns), 1):
            conversations.append(_Conversation(prefixes[random.randrange(numbers.prefixes)]))
        conversation = conversations[random.randrange(len(conversations))]
        prompt = conversation.prompt + texts.new(_length(random, numbers.prompt_tokens))
        output = max(_length(random, numbers.output_tokens), 1)
        made.append(TraceRequest(arrival, prompt or texts.new(UNIT), output))
        conversation.prompt = prompt + texts.new(output // UNIT * UNIT)
        conversation.turns += 1
        if conversation.turns == numbers.turns:
            conversations.remove(conversation)
    return made


@dataclass(slots=True, eq=False)
class _Conversation:
    prompt: tuple[Segment, ...]
    turns: int = 0


class _Texts:
    """Texts of which no two parts are equal."""

    def __init__(self) -> None:
        self._parts = 0

    def new(self, tokens: int) -> tuple[Segment, ...]:
        """A text of so many tokens."""
        starts = range(0, tokens, UNIT)
        self._parts += len(starts)
        return tuple([Segment(min(UNIT, tokens - start), self._parts - start // UNIT) for start in starts])


def _length(random: Random, mean: int) -> int:
    return round(random.expovariate(1.0 / mean)) if mean else 0
