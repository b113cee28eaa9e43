"""The KV cache of the simulated engine: blocks shared by prefix, with LRU eviction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class KvCache:
    """Blocks of tokens. A block is free, in use by sequences, or cached: unused, but with its content kept.

    Blocks that can be shared are identified by a hash of all tokens up to their end.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._unhashed = 0
        self._users: dict[int, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of blocks in use, 0 to 1."""
        return (self._unhashed + len(self._users)) / self.num_blocks

    @property
    def available(self) -> int:
        """Number of blocks that are free or can be evicted."""
        return self.num_blocks - self._unhashed - len(self._users)

    def __contains__(self, block: int) -> bool:
        """Whether a block of this hash is in the cache."""
        return block in self._users or block in self._cached

    def match(self, chain: Sequence[int]) -> int:
        """Number of leading blocks of `chain` that are in the cache."""
        users, cached = self._users, self._cached
        for depth, block in enumerate(chain):
            if block not in users and block not in cached:
                return depth
        return len(chain)

    def share(self, chain: Sequence[int]) -> None:
        """Marks blocks found by `match` as used by one more sequence."""
        for block in chain:
            self._cached.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def allocate(self, count: int) -> bool:
        """Allocates `count` blocks without a hash, evicting cached ones. False, and none allocated, if too few."""
        if count > self.available:
            return False
        self._unhashed += count
        while self._unhashed + len(self._users) + len(self._cached) > self.num_blocks:
            self._cached.popitem(last=False)
        return True

    def set_hashes(self, chain: Sequence[int]) -> None:
        """Assigns the hashes in `chain` to allocated blocks. A block whose hash exists already is freed."""
        for block in chain:
            self._unhashed -= 1
            self._cached.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def release(self, chain: Sequence[int], unhashed: int) -> None:
        """Releases the blocks of a sequence. Those with a hash stay cached; the last ones are evicted first."""
        self._unhashed -= unhashed
        for block in reversed(chain):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._cached[block] = None
