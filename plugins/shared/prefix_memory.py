"""What endpoints are assumed to have in their prefix caches: learnt from past picks, forgotten when they restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plugins.shared.prefix_index import PrefixIndex, chain_of, seed_of
from pointsman import Decision, InferenceRequest, Pool

PREFILL_PROFILE = "prefill"
"""The profile whose pick fills its cache with the prompt as well."""


def prefills_at(decision: Decision) -> str:
    """The name of the endpoint that processes the prompt: that of the prefill profile, else the destination."""
    results = decision.results
    prefill = results.get(PREFILL_PROFILE)
    if prefill is None or not prefill.endpoints:
        prefill = results[decision.primary]
    return prefill.endpoints[0].name


Chains = Sequence[Sequence[int]]


class PrefixMemory:
    """A prefix index that follows the pool and the picks."""

    def __init__(self) -> None:
        self._index = PrefixIndex()
        self._names: frozenset[str] = frozenset()
        self._lives: Mapping[str, int] = {}

    def follow(self, pool: Pool) -> None:
        """Forgets endpoints that are gone or down: their caches are lost."""
        if pool.names is self._names:
            return
        self._names = pool.names
        lives = {name: pool.incarnation(name) for name in self._names}
        self._index.keep_only({name for name, life in lives.items() if self._lives.get(name) == life})
        self._lives = lives

    def chains(self, request: InferenceRequest, block_bytes: int, max_blocks: int) -> Chains:
        """Per prompt of the request, the chained hashes of its whole blocks, `max_blocks` at most."""
        seed = seed_of(request)
        return [chain_of(prompt, seed, block_bytes, max_blocks) for prompt in request.prompts]

    def match(self, chains: Chains) -> Mapping[str, float]:
        """Blocks from the beginnings of `chains` that each holder has, by endpoint name."""
        if len(chains) == 1:
            return self._index.match(chains[0])
        total: dict[str, float] = {}
        for chain in chains:
            for name, blocks in self._index.match(chain).items():
                total[name] = total.get(name, 0) + blocks
        return total

    def credit(self, decision: Decision, chains: Chains, capacity: Mapping[str, int], usual: int) -> None:
        """Records that the endpoint picked, and the one that prefills, will hold `chains`.

        `capacity` is the number of blocks that each endpoint's cache holds; `usual` stands in where it is unknown.
        """
        names = {decision.endpoint.name}
        prefill = decision.results.get(PREFILL_PROFILE)
        if prefill is not None and prefill.endpoints:
            names.add(prefill.endpoints[0].name)
        for name in names:
            for chain in chains:
                self._index.touch(name, chain, capacity.get(name, usual))
