"""The requests of a trace, whatever format they were read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.domain.request import BYTES_PER_TOKEN
from app.simulation.engine import BLOCK_TOKENS


class Segment(NamedTuple):
    """A part of a prompt. Prompts that begin with the same segments share these in a prefix cache."""

    tokens: int
    content: int
    """Identifies the text."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request."""

    arrival: float
    """Seconds since the beginning of the trace."""
    prompt: tuple[Segment, ...]
    output_tokens: int
    model: str = "demo"

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens in the prompt."""
        return sum([segment.tokens for segment in self.prompt])

    def text(self) -> bytes:
        """A prompt with these segments, as token ids: equal segments are equal bytes."""
        return b"".join([_token_ids(segment) for segment in self.prompt])

    def chain(self) -> Sequence[int]:
        """A hash for each complete block of the engine, each made from the one before."""
        chain: list[int] = []
        block, start = 0, 0
        for tokens, content in self.prompt:
            end = start + tokens
            for at in range(len(chain) * BLOCK_TOKENS, end, BLOCK_TOKENS):
                block = hash((block, content, at - start))
                chain.append(block)
            start = end
        return chain[: start // BLOCK_TOKENS]


class TraceError(Exception):
    """A trace that can't be read."""

    def __init__(self, errors: Sequence[str]) -> None:
        """Each error says where it is, what was found and what was expected."""
        super().__init__(*errors)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(self.errors)


def _token_ids(segment: Segment) -> bytes:
    """Ids whose first two say which segment it is."""
    beginning = (segment.content & 0x1FFFF).to_bytes(BYTES_PER_TOKEN, "little")
    beginning += (segment.content >> 17 & 0xFFFFFFFF).to_bytes(BYTES_PER_TOKEN, "little")
    return beginning.ljust(segment.tokens * BYTES_PER_TOKEN, b"\0")[: segment.tokens * BYTES_PER_TOKEN]
