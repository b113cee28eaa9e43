"""The simulated KV cache: blocks in use, cached, and free."""

from __future__ import annotations

from app.simulation.kv_cache import KvCache


def filled(*chains: list[int], blocks: int = 8) -> KvCache:
    """A cache after sequences with `chains`, one after the other."""
    cache = KvCache(blocks)
    for chain in chains:
        assert cache.allocate(len(chain))
        cache.set_hashes(chain)
        cache.release(chain, 0)
    return cache


def test_an_empty_cache_matches_nothing() -> None:
    assert KvCache(4).match([1, 2]) == 0


def test_a_released_chain_is_cached_and_not_in_use() -> None:
    cache = filled([1, 2, 3])
    assert (cache.match([1, 2, 3, 4]), cache.usage, cache.available) == (3, 0.0, 8)


def test_a_match_ends_at_the_first_gap() -> None:
    assert filled([1, 2, 3]).match([1, 9, 3]) == 1


def test_blocks_in_use_are_not_available() -> None:
    cache = filled([1, 2])
    cache.share([1, 2])
    assert (cache.usage, cache.available, cache.allocate(7)) == (0.25, 6, False)


def test_a_shared_block_is_in_use_until_all_release_it() -> None:
    cache = filled([1])
    cache.share([1])
    cache.share([1])
    cache.release([1], 0)
    assert cache.usage == 0.125


def test_allocating_more_than_available_allocates_nothing() -> None:
    cache = KvCache(4)
    assert (cache.allocate(5), cache.usage, cache.allocate(4), cache.usage) == (False, 0.0, True, 1.0)


def test_the_end_of_the_oldest_chain_is_evicted_first() -> None:
    cache = filled([1, 2, 3], [4, 5, 6])
    assert cache.allocate(4)
    assert (cache.match([1, 2, 3]), cache.match([4, 5, 6])) == (1, 3)


def test_sharing_a_chain_makes_it_recent() -> None:
    cache = filled([1, 2, 3], [4, 5, 6])
    cache.share([1, 2, 3])
    cache.release([1, 2, 3], 0)
    assert cache.allocate(5)
    assert (cache.match([1, 2, 3]), cache.match([4, 5, 6])) == (3, 0)


def test_blocks_with_the_same_hash_become_one() -> None:
    cache = KvCache(4)
    for _ in range(2):
        cache.allocate(1)
        cache.set_hashes([7])
    assert cache.usage == 0.25


def test_setting_a_cached_hash_marks_it_as_used() -> None:
    cache = filled([7])
    cache.allocate(1)
    cache.set_hashes([7])
    assert (cache.usage, cache.match([7])) == (0.125, 1)
