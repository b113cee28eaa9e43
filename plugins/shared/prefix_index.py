"""Which prefixes of a prompt each endpoint has in its cache, estimated from past picks.

A prompt is divided into steps of whole blocks. Steps are hashed in a chain, so a step's hash identifies the whole
prefix that ends with it. The first `STEPS` steps are one block each; after every `STEPS` steps their size doubles.
Long prefixes are therefore matched less exactly, to about a sixteenth of their length, for a fraction of the hashing
and the memory.

Each endpoint has an LRU of steps, bounded in blocks. Over all endpoints, each step maps to the set of its holders, as
the bits of an integer.

A chain is touched from its end to its start. A step is thus never more recent than the step before it, the LRU evicts
chains from their ends, and an endpoint that holds a step holds all steps before it. So matches have no gaps, and the
length of a match is found by binary search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from pointsman import Column, InferenceRequest

STEPS = 16
"""The number of steps of one size."""


class _StepTable:
    """The ends of the steps, in blocks. It grows with the longest prompt seen."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.sizes: list[int] = []
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def steps_in(self, blocks: int) -> int:
        """The number of whole steps in `blocks` blocks."""
        while not self.ends or self.ends[-1] < blocks:
            size = 2 ** (len(self.ends) // STEPS)
            self.sizes.append(size)
            self.ends.append((self.ends[-1] if self.ends else 0) + size)
        return bisect_right(self.ends, blocks)

    def spans(self, steps: int, block_bytes: int) -> Sequence[tuple[int, int]]:
        """Where each of the first `steps` steps begins and ends, in bytes."""
        found = self._spans.get(block_bytes)
        if found is None or len(found) < steps:
            ends = [end * block_bytes for end in self.ends]
            found = self._spans[block_bytes] = list(zip([0, *ends], ends, strict=False))
        return found[:steps]


_TABLE = _StepTable()


def chain_of(prompt: bytes, seed: int, block_bytes: int, max_blocks: int) -> Sequence[int]:
    """The chained hashes of the whole steps of `prompt`: XXH3 of a step's bytes, seeded with the hash before it.

    An incomplete last step is left out: an engine can't reuse a part of a block either.
    """
    steps = _TABLE.steps_in(min(len(prompt) // block_bytes, max_blocks))
    spans = _TABLE.spans(steps, block_bytes)
    return [seed := xxh3_64_intdigest(prompt[start:end], seed) for start, end in spans]


def step_ends() -> Sequence[int]:
    """How many blocks there are up to the end of each step of a chain."""
    return _TABLE.ends


def blocks_in(request: InferenceRequest, block_bytes: int, max_blocks: int) -> int:
    """The number of whole blocks in the prompts, at most `max_blocks` in each."""
    return sum([min(len(prompt) // block_bytes, max_blocks) for prompt in request.prompts])


def seed_of(request: InferenceRequest) -> int:
    """The seed of the request's chains: different models, adapters and cache salts share no blocks."""
    return _seed(request.model, request.adapter, request.cache_salt)


@lru_cache(maxsize=256)
def _seed(*parts: str | None) -> int:
    return xxh3_64_intdigest(repr(parts).encode("utf-8", "surrogatepass"))


class Matches(Mapping[str, float]):
    """The number of blocks that each endpoint holds of a chain, by endpoint name; without endpoints that hold none.

    It does not change when endpoints are added to the index or removed from it.
    """

    __slots__ = ("_groups", "_slots")

    def __init__(self, groups: Sequence[tuple[int, int]], slots: _Slots) -> None:
        """`groups` are pairs of a depth in blocks and the bits of the endpoints that hold exactly so many."""
        self._groups = groups
        self._slots = slots

    def __getitem__(self, name: str) -> float:
        depth: float = self.get(name, 0.0)
        if not depth:
            raise KeyError(name)
        return depth

    def get(self, name: str, default: Any = None) -> Any:
        """The depth of an endpoint, `default` if it holds nothing. It is asked for mostly for those that don't."""
        slot = self._slots.by_name.get(name)
        if slot is not None:
            for depth, holders in self._groups:
                if holders >> slot & 1:
                    return depth
        return default

    def __iter__(self) -> Iterator[str]:
        matching = 0
        for _, holders in self._groups:
            matching |= holders
        return (name for name, slot in self._slots.by_name.items() if matching >> slot & 1)

    def __len__(self) -> int:
        return sum(holders.bit_count() for _, holders in self._groups)

    def few(self, names: tuple[str, ...]) -> list[float]:
        """As `column`, in plain Python, which is faster for a few endpoints. 0 for those that hold nothing."""
        depths = [0.0] * len(names)
        positions = self._slots.positions_in(names)
        for depth, holders in self._groups:
            if holders.bit_count() == 1:
                position = positions.get(holders.bit_length() - 1)
                if position is not None:
                    depths[position] = depth
                continue
            for slot, position in positions.items():
                if holders >> slot & 1:
                    depths[position] = depth
        return depths

    def column(self, names: tuple[str, ...], default: float) -> Column:
        """The depth of each of `names`; `default` for those that hold nothing."""
        size = self._slots.size + 1
        depths = np.full(size, default) if default else np.zeros(size)
        for depth, holders in self._groups:
            if holders.bit_count() == 1:
                depths[holders.bit_length() - 1] = depth
            else:
                depths[_positions_of_bits(holders)] = depth
        return depths[self._slots.of(names)]


class _Slots:
    """The bit of each endpoint. Immutable: another set of endpoints has another `_Slots`."""

    def __init__(self, by_name: Mapping[str, int]) -> None:
        self.by_name = by_name
        self.size = max(by_name.values(), default=-1) + 1
        self._placed_names: tuple[str, ...] = ()
        self._positions: Mapping[int, int] = {}
        self._cached_names: tuple[str, ...] = ()
        self._cached_slots: NDArray[np.intp] = np.zeros(0, np.intp)

    def with_(self, name: str) -> _Slots:
        """A copy with `name` added at the first free bit."""
        taken = set(self.by_name.values())
        free = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        return _Slots({**self.by_name, name: free})

    def without(self, name: str) -> _Slots:
        """A copy without `name`, whose bit becomes free."""
        return _Slots({other: slot for other, slot in self.by_name.items() if other != name})

    def positions_in(self, names: tuple[str, ...]) -> Mapping[int, int]:
        """The position of each slot's endpoint in `names`. The last result is cached."""
        if names is not self._placed_names:
            by_name = self.by_name
            self._positions = {by_name[name]: place for place, name in enumerate(names) if name in by_name}
            self._placed_names = names
        return self._positions

    def of(self, names: tuple[str, ...]) -> NDArray[np.intp]:
        """The slot of each name, -1 for none. The last result is cached: most requests have the same candidates."""
        if names is not self._cached_names:
            self._cached_slots = np.array([self.by_name.get(name, -1) for name in names], np.intp)
            self._cached_names = names
        return self._cached_slots


class _Holdings:
    """The steps that an endpoint holds and their sizes, least recently used first."""

    __slots__ = ("blocks", "steps")

    def __init__(self) -> None:
        self.steps: OrderedDict[int, int] = OrderedDict()
        self.blocks = 0

    def add(self, steps: Sequence[int], sizes: Sequence[int]) -> None:
        """Adds new steps, the first of them as the most recent."""
        self.steps.update(zip(reversed(steps), reversed(sizes), strict=True))
        self.blocks += sum(sizes)

    def evict(self) -> int:
        """Removes the least recently used step and returns it."""
        step, size = self.steps.popitem(last=False)
        self.blocks -= size
        return step


class PrefixIndex:
    """The steps that each endpoint holds."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._held: dict[str, _Holdings] = {}
        self._slots = _Slots({})

    def match(self, chain: Sequence[int]) -> Matches:
        """The number of blocks that each endpoint holds of `chain`, from its start."""
        groups: list[tuple[int, int]] = []
        depth, holders = 0, self._holders_at(chain, 0)
        while holders:
            depth = self._last_held_by(chain, holders, depth) + 1
            deeper = self._holders_at(chain, depth)
            groups.append((_TABLE.ends[depth - 1], holders & ~deeper))
            holders = deeper
        return Matches(groups, self._slots)

    def touch(self, name: str, chain: Sequence[int], capacity: int) -> None:
        """Records that the endpoint `name` is about to hold `chain`. `capacity` is the size of its cache in blocks."""
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Holdings()
            self._slots = self._slots.with_(name)
        bit = 1 << self._slots.by_name[name]
        if chain and _TABLE.ends[len(chain) - 1] > capacity:
            chain = chain[: _TABLE.steps_in(capacity)]
        known = self._last_held_by(chain, bit, -1) + 1
        if known < len(chain):
            held.add(chain[known:], _TABLE.sizes[known : len(chain)])
            holders = self._holders
            for step in chain[known:]:
                holders[step] = holders.get(step, 0) | bit
        deque(map(held.steps.move_to_end, reversed(chain[:known])), maxlen=0)
        while held.blocks > capacity:
            self._remove_holder(held.evict(), bit)

    def keep_only(self, names: Collection[str]) -> None:
        """Removes all endpoints that are not in `names`."""
        for name in [name for name in self._held if name not in names]:
            bit = 1 << self._slots.by_name[name]
            self._slots = self._slots.without(name)
            for step in self._held.pop(name).steps:
                self._remove_holder(step, bit)

    def blocks(self, name: str) -> int:
        """The number of blocks that the endpoint holds."""
        held = self._held.get(name)
        return held.blocks if held is not None else 0

    def __len__(self) -> int:
        """The number of distinct steps."""
        return len(self._holders)

    def _holders_at(self, chain: Sequence[int], depth: int) -> int:
        return self._holders.get(chain[depth], 0) if depth < len(chain) else 0

    def _last_held_by(self, chain: Sequence[int], holders: int, low: int) -> int:
        """The last position that all of `holders` hold. They are known to hold `low`, which may be -1 for nothing."""
        high = len(chain) - 1
        get = self._holders.get
        if low < high and get(chain[high], 0) & holders == holders:  # often all of it, or nothing
            return high
        if low < 0 <= high and get(chain[0], 0) & holders != holders:
            return low
        while low < high:
            middle = (low + high + 1) // 2
            if get(chain[middle], 0) & holders == holders:
                low = middle
            else:
                high = middle - 1
        return low

    def _remove_holder(self, step: int, bit: int) -> None:
        holders = self._holders[step]
        if holders == bit:
            del self._holders[step]
        else:
            self._holders[step] = holders & ~bit


def _positions_of_bits(number: int) -> NDArray[np.intp]:
    data = np.frombuffer(number.to_bytes(-(-number.bit_length() // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(data, bitorder="little"))
