"""What goes through the simulated engine, and what is counted there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class EngineSequence:
    """One prompt in the engine."""

    prompt_tokens: int
    """Number of tokens in the prompt, at least one."""
    output_tokens: int
    """Number of tokens to generate."""
    adapter: str | None
    chain: Sequence[int]
    """Hashes of the complete blocks of the prompt."""
    cached_tokens: int = 0
    """Prompt tokens found in the prefix cache when first scheduled."""
    computed: int = 0
    """Tokens computed since it was last scheduled, including those found in the cache."""
    to_compute: int = 0
    """Tokens to compute before it decodes: the prompt, and the tokens generated before a preemption."""
    scheduled: bool = False
    """Whether it has been in the batch before."""
    generated: int = 0
    hashed_blocks: int = 0
    """Number of blocks held that have a hash and may be shared."""
    unhashed_blocks: int = 0
    """Number of blocks held that have no hash."""
    running: bool = False
    """Whether it is in the batch."""

    @property
    def finished(self) -> bool:
        """Whether it has all its tokens."""
        return self.generated >= self.output_tokens


@dataclass(frozen=True, slots=True)
class Step:
    """The result of an iteration: its duration in seconds, and the sequences that generated a token."""

    duration: float
    advanced: Sequence[EngineSequence] = ()


@dataclass(slots=True)
class EngineCounters:
    """Counters for the metrics page."""

    prefix_queries: int = 0
    """Tokens looked up in the prefix cache."""
    prefix_hits: int = 0
    """Tokens found in the prefix cache."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
