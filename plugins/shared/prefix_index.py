"""Which endpoint has which beginning of a prompt in its cache, as far as past picks tell.

Prompts are cut into blocks of bytes and hashed in a chain, so that a block's hash stands for everything before it as
well. Per endpoint the index is an LRU of hashes, bounded; over all of them, a hash leads to the set of its holders,
kept as the bits of one integer.

A chain is always touched from its end to its beginning. So a block is never more recent than the one before it, the
LRU drops the end of a chain first, and whoever holds a block holds all before it: a match has no gap, and where it
ends can be searched by halving.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from xxhash import xxh3_64_intdigest

from pointsman import InferenceRequest


def chain_of(prompt: bytes, seed: int, block_bytes: int, max_blocks: int) -> Sequence[int]:
    """The chained hashes of `prompt`'s whole blocks: each is the XXH3 of its bytes, seeded with the one before.

    A last block that is not full is left out, since an engine can't reuse one either.
    """
    end = min(len(prompt) // block_bytes, max_blocks) * block_bytes
    view = memoryview(prompt)
    return [seed := xxh3_64_intdigest(view[start : start + block_bytes], seed) for start in range(0, end, block_bytes)]


def seed_of(request: InferenceRequest) -> int:
    """Where the request's chains begin: other models, adapters and salts never share a block."""
    parts = (request.model, request.adapter, request.cache_salt)
    return xxh3_64_intdigest(repr(parts).encode("utf-8", "surrogatepass"))


class PrefixIndex:
    """The blocks that endpoints hold, by endpoint name."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._held: dict[str, OrderedDict[int, None]] = {}
        self._bits: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def match(self, chain: Sequence[int]) -> dict[str, int]:
        """How many blocks from the beginning of `chain` each holder has; endpoints with none are left out."""
        depths: dict[str, int] = {}
        depth = 0
        holders = self._holders_at(chain, 0)
        while holders:
            depth = self._last_held_by(chain, holders, depth) + 1
            further = self._holders_at(chain, depth)
            for name in self._named(holders & ~further):
                depths[name] = depth
            holders = further
        return depths

    def touch(self, name: str, chain: Sequence[int], capacity: int) -> None:
        """The endpoint is about to hold `chain`, of which `capacity` blocks fit with all it has."""
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = OrderedDict()
            self._bits[name] = self._free_bit()
            self._names[self._bits[name]] = name
        bit, holders = self._bits[name], self._holders
        for block in chain[capacity - 1 :: -1] if len(chain) > capacity else reversed(chain):
            if block in held:
                held.move_to_end(block)
            else:
                held[block] = None
                holders[block] = holders.get(block, 0) | bit
        while len(held) > capacity:
            self._forget(held.popitem(last=False)[0], bit)

    def keep_only(self, names: Iterable[str]) -> None:
        """Drops the endpoints that are not among `names`."""
        for name in self._held.keys() - set(names):
            bit = self._bits.pop(name)
            del self._names[bit]
            for block in self._held.pop(name):
                self._forget(block, bit)

    def blocks(self, name: str) -> int:
        """How many blocks an endpoint holds."""
        return len(self._held.get(name, ()))

    def __len__(self) -> int:
        """Distinct blocks held by anybody."""
        return len(self._holders)

    def _holders_at(self, chain: Sequence[int], depth: int) -> int:
        return self._holders.get(chain[depth], 0) if depth < len(chain) else 0

    def _last_held_by(self, chain: Sequence[int], holders: int, low: int) -> int:
        """The last position from `low` on that all of `holders`, who hold `low`, still hold."""
        high = len(chain) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._holders.get(chain[middle], 0) & holders == holders:
                low = middle
            else:
                high = middle - 1
        return low

    def _named(self, holders: int) -> Iterable[str]:
        while holders:
            bit = holders & -holders
            yield self._names[bit]
            holders ^= bit

    def _free_bit(self) -> int:
        bit = 1
        while bit in self._names:
            bit <<= 1
        return bit

    def _forget(self, block: int, bit: int) -> None:
        left = self._holders[block] & ~bit
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]
