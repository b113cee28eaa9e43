"""What the simulated engine says: words, the same for the same prompt and seed."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

WORDS = (
    "the", "signal", "is", "green", "and", "every", "train", "takes", "its", "own", "track", "while", "points",
    "are", "set", "by", "hand", "at", "night", "a", "lamp", "shows", "which", "way", "they", "lie", "so", "that",
    "nobody", "waits", "longer", "than", "needed",
)  # fmt: skip

SHORTEST = 16
SPREAD = 48


def natural_length(key: int) -> int:
    """How many tokens an answer has when nothing limits it."""
    return SHORTEST + key % SPREAD


def word(key: int, index: int) -> str:
    """The `index`-th token of an answer."""
    chosen = WORDS[xxh3_64_intdigest(index.to_bytes(4, "little"), key) % len(WORDS)]
    return chosen if index == 0 else f" {chosen}"
