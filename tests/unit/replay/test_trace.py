"""Requests of a trace as prompts, and as the hashes of their blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.replay.shaping import at_load, chosen, cut, faster, in_bursts, offered_load
from app.simulation.engine import BLOCK_TOKENS
from tests.unit.replay.given import request

SEGMENTS = [(16, 0), (64, 1), (512, 2), (16, 3), (64, 4), (512, 5)]

PROMPTS = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=6)


@given(PROMPTS, PROMPTS)
def test_prompts_share_bytes_and_blocks_as_far_as_they_share_segments(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    shared = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        shared += left[0]
    first, second = request(0, *one), request(0, *other)
    texts = zip(first.text(), second.text(), strict=False)
    same = next((at for at, (a, b) in enumerate(texts) if a != b), min(len(first.text()), len(second.text())))
    blocks = [a == b for a, b in zip(first.chain(), second.chain(), strict=False)]
    assert same // 4 >= shared
    if one[: len(other)] != other and other[: len(one)] != one:
        assert same // 4 <= shared + 1
    assert blocks[: shared // BLOCK_TOKENS] == [True] * (shared // BLOCK_TOKENS)


def test_a_prompt_has_four_bytes_per_token_and_a_hash_per_complete_block() -> None:
    one = request(0, (512, 7), (100, 8))
    assert (one.prompt_tokens, len(one.text()), len(one.chain())) == (612, 4 * 612, 612 // BLOCK_TOKENS)


def test_a_trace_can_be_cut_sped_up_and_moved_into_bursts() -> None:
    trace = [request(at, (100, 1)) for at in (0.0, 5.0, 12.0, 19.0)]
    assert [one.arrival for one in cut(trace, 12.0)] == [0.0, 5.0]
    assert [one.arrival for one in faster(trace, 2.0)] == [0.0, 2.5, 6.0, 9.5]
    assert [round(one.arrival, 9) for one in in_bursts(trace, 10.0)] == [0.0, 0.5, 10.2, 10.9]


def test_load_is_prompt_tokens_over_capacity() -> None:
    trace = [request(at, (500, 1)) for at in (0.0, 1.0, 2.0, 4.0)]
    assert offered_load(trace, 1000.0) == 0.5
    assert [one.arrival for one in at_load(trace, 0.25, 1000.0)] == [0.0, 2.0, 4.0, 8.0]
    together = [request(0.0, (500, 1))] * 3
    assert at_load(together, 0.5, 1000.0) == together


def test_the_same_seed_chooses_the_same_share() -> None:
    assert chosen(1000, 0.3, seed=1) == chosen(1000, 0.3, seed=1) != chosen(1000, 0.3, seed=2)
    assert 250 < len(chosen(1000, 0.3, seed=1)) < 350
    assert not chosen(1000, 0.0, seed=1)
