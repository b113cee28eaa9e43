"""The KV cache of the simulated engine: blocks, shared by prefix, the least recently used reused first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class KvCache:
    """Blocks of tokens. A block is free, in use by sequences, or cached: not in use, but with its content kept.

    A block with content that another sequence may share is known by the hash that stands for all tokens up to its end.
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._unnamed = 0
        self._users: dict[int, int] = {}
        self._cached: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of the blocks in use, 0 to 1."""
        return (self._unnamed + len(self._users)) / self.num_blocks

    @property
    def available(self) -> int:
        """Blocks that are free or can be reused."""
        return self.num_blocks - self._unnamed - len(self._users)

    def match(self, chain: Sequence[int]) -> int:
        """How many blocks from the beginning of `chain` are here."""
        for depth, block in enumerate(chain):
            if block not in self._users and block not in self._cached:
                return depth
        return len(chain)

    def use(self, chain: Sequence[int]) -> None:
        """Takes blocks that `match` found into use."""
        for block in chain:
            self._cached.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def take(self, count: int) -> bool:
        """Takes `count` blocks without content into use; False, and none taken, if there are not as many."""
        if count > self.available:
            return False
        self._unnamed += count
        while self._unnamed + len(self._users) + len(self._cached) > self.num_blocks:
            self._cached.popitem(last=False)
        return True

    def name(self, chain: Sequence[int]) -> None:
        """Blocks taken without content now hold what `chain` stands for; of two with the same content one is freed."""
        for block in chain:
            self._unnamed -= 1
            self._cached.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def release(self, chain: Sequence[int], unnamed: int) -> None:
        """A sequence ended. Its named blocks stay cached unless others use them, the beginning the longest."""
        self._unnamed -= unnamed
        for block in reversed(chain):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._cached[block] = None
