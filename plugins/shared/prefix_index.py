"""Which endpoint has which beginning of a prompt in its cache, as far as past picks tell.

Prompts are cut into steps of whole blocks of bytes and hashed in a chain, so that a step's hash stands for everything
before it as well. The first steps are one block each, and every `STEPS` steps they double: what is deep in a long
prompt is known to a sixteenth of its depth, which costs a fraction of the hashing and of the memory.

Per endpoint the index is an LRU of hashes, bounded in blocks; over all of them, a hash leads to the set of its holders,
kept as the bits of one integer.

A chain is always touched from its end to its beginning. So a step is never more recent than the one before it, the
LRU drops the end of a chain first, and whoever holds a step holds all before it: a match has no gap, and where it
ends can be searched by halving.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from pointsman import Column, InferenceRequest

STEPS = 16
"""Steps of one size, before they double."""


class _Ruler:
    """Where steps end, counted in blocks. It grows with the longest prompt seen."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.sizes: list[int] = []

    def steps_in(self, blocks: int) -> int:
        """How many whole steps there are in so many blocks."""
        while not self.ends or self.ends[-1] < blocks:
            size = 2 ** (len(self.ends) // STEPS)
            self.sizes.append(size)
            self.ends.append((self.ends[-1] if self.ends else 0) + size)
        return bisect_right(self.ends, blocks)


_RULER = _Ruler()


def chain_of(prompt: bytes, seed: int, block_bytes: int, max_blocks: int) -> Sequence[int]:
    """The chained hashes of `prompt`'s whole steps: each is the XXH3 of its bytes, seeded with the one before.

    A last step that is not full is left out, since an engine can't reuse a part of a block either.
    """
    steps = _RULER.steps_in(min(len(prompt) // block_bytes, max_blocks))
    start = 0
    chain: list[int] = []
    for end in _RULER.ends[:steps]:
        end *= block_bytes  # noqa: PLW2901 - from blocks to bytes
        seed = xxh3_64_intdigest(prompt[start:end], seed)
        chain.append(seed)
        start = end
    return chain


def blocks_in(request: InferenceRequest, block_bytes: int, max_blocks: int) -> int:
    """How many whole blocks the prompts have, `max_blocks` each at most."""
    return sum([min(len(prompt) // block_bytes, max_blocks) for prompt in request.prompts])


def seed_of(request: InferenceRequest) -> int:
    """Where the request's chains begin: other models, adapters and salts never share a block."""
    return _seed(request.model, request.adapter, request.cache_salt)


@lru_cache(maxsize=256)
def _seed(*parts: str | None) -> int:
    return xxh3_64_intdigest(repr(parts).encode("utf-8", "surrogatepass"))


class Matches(Mapping[str, float]):
    """How many blocks from a chain's beginning each holder has, by endpoint name; those with none are left out.

    It stays as it was found, whoever comes and goes in the index later.
    """

    __slots__ = ("_groups", "_slots")

    def __init__(self, groups: Sequence[tuple[int, int]], slots: _Slots) -> None:
        """`groups` are pairs of a depth in blocks and the bits of the holders that go just as deep."""
        self._groups = groups
        self._slots = slots

    def __getitem__(self, name: str) -> float:
        bit = 1 << self._slots.by_name[name]
        for depth, holders in self._groups:
            if holders & bit:
                return depth
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        held = 0
        for _, holders in self._groups:
            held |= holders
        return (name for name, slot in self._slots.by_name.items() if held >> slot & 1)

    def __len__(self) -> int:
        return sum(holders.bit_count() for _, holders in self._groups)

    def column(self, names: tuple[str, ...], default: float) -> Column:
        """The depth for each of `names`."""
        size = self._slots.size + 1
        depths = np.full(size, default) if default else np.zeros(size)
        for depth, holders in self._groups:
            if holders.bit_count() == 1:
                depths[holders.bit_length() - 1] = depth
            else:
                depths[_positions_of_bits(holders)] = depth
        return depths[self._slots.of(names)]


class _Slots:
    """Which endpoint has which bit. Never changed: another set of endpoints has other slots."""

    def __init__(self, by_name: Mapping[str, int]) -> None:
        self.by_name = by_name
        self.size = max(by_name.values(), default=-1) + 1
        self._last: tuple[str, ...] = ()
        self._slots_of_last: NDArray[np.intp] = np.zeros(0, np.intp)

    def with_(self, name: str) -> _Slots:
        """These and `name`, which gets the first free bit."""
        taken = set(self.by_name.values())
        free = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        return _Slots({**self.by_name, name: free})

    def without(self, name: str) -> _Slots:
        """These but for `name`, whose bit is free again."""
        return _Slots({other: slot for other, slot in self.by_name.items() if other != name})

    def of(self, names: tuple[str, ...]) -> NDArray[np.intp]:
        """The slot of each name; -1 for those without. The last answer is kept: most requests meet the same pool."""
        if names is not self._last:
            self._slots_of_last = np.array([self.by_name.get(name, -1) for name in names], np.intp)
            self._last = names
        return self._slots_of_last


class _Held:
    """What one endpoint holds: steps with their sizes, the least recent first."""

    __slots__ = ("blocks", "steps")

    def __init__(self) -> None:
        self.steps: OrderedDict[int, int] = OrderedDict()
        self.blocks = 0

    def take(self, fresh: Sequence[int], sizes: Sequence[int]) -> None:
        """Holds `fresh` as well, its beginning as the most recent."""
        self.steps.update(zip(reversed(fresh), reversed(sizes), strict=True))
        self.blocks += sum(sizes)

    def drop_oldest(self) -> int:
        """The step that was used least recently, which it no longer holds."""
        step, size = self.steps.popitem(last=False)
        self.blocks -= size
        return step


class PrefixIndex:
    """The steps that endpoints hold, by endpoint name."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._held: dict[str, _Held] = {}
        self._slots = _Slots({})

    def match(self, chain: Sequence[int]) -> Matches:
        """How many blocks from the beginning of `chain` each holder has."""
        groups: list[tuple[int, int]] = []
        depth, holders = 0, self._holders_at(chain, 0)
        while holders:
            depth = self._last_held_by(chain, holders, depth) + 1
            further = self._holders_at(chain, depth)
            groups.append((_RULER.ends[depth - 1], holders & ~further))
            holders = further
        return Matches(groups, self._slots)

    def touch(self, name: str, chain: Sequence[int], capacity: int) -> None:
        """The endpoint is about to hold `chain`, of which `capacity` blocks fit with all it has."""
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Held()
            self._slots = self._slots.with_(name)
        bit = 1 << self._slots.by_name[name]
        if chain and _RULER.ends[len(chain) - 1] > capacity:
            chain = chain[: _RULER.steps_in(capacity)]
        known = self._last_held_by(chain, bit, -1) + 1
        fresh = chain[known:]
        held.take(fresh, _RULER.sizes[known : len(chain)])
        holders = self._holders
        for step in fresh:
            holders[step] = holders.get(step, 0) | bit
        move = held.steps.move_to_end
        for step in reversed(chain[:known]):
            move(step)
        while held.blocks > capacity:
            self._forget(held.drop_oldest(), bit)

    def keep_only(self, names: Collection[str]) -> None:
        """Drops the endpoints that are not among `names`."""
        for name in [name for name in self._held if name not in names]:
            bit = 1 << self._slots.by_name[name]
            self._slots = self._slots.without(name)
            for step in self._held.pop(name).steps:
                self._forget(step, bit)

    def blocks(self, name: str) -> int:
        """How many blocks an endpoint holds."""
        held = self._held.get(name)
        return held.blocks if held is not None else 0

    def __len__(self) -> int:
        """Distinct steps held by anybody."""
        return len(self._holders)

    def _holders_at(self, chain: Sequence[int], depth: int) -> int:
        return self._holders.get(chain[depth], 0) if depth < len(chain) else 0

    def _last_held_by(self, chain: Sequence[int], holders: int, low: int) -> int:
        """The last position from `low` on that all of `holders`, who hold `low`, still hold."""
        high = len(chain) - 1
        get = self._holders.get
        while low < high:
            middle = (low + high + 1) // 2
            if get(chain[middle], 0) & holders == holders:
                low = middle
            else:
                high = middle - 1
        return low

    def _forget(self, step: int, bit: int) -> None:
        holders = self._holders[step]
        if holders == bit:
            del self._holders[step]
        else:
            self._holders[step] = holders & ~bit


def _positions_of_bits(number: int) -> NDArray[np.intp]:
    data = np.frombuffer(number.to_bytes(-(-number.bit_length() // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))
