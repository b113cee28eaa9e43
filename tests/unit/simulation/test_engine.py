"""The simulated engine in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.simulation.engine import Engine, EngineOptions, EngineSequence

PROMPT = bytes(range(256)) * 4
"""256 tokens, 16 blocks, no two alike within 64 tokens."""


def engine(**options: Any) -> Engine:
    return Engine(EngineOptions(**options))


def prompt(tokens: int, fill: str = "x") -> bytes:
    return fill.encode() * 4 * tokens


def run(one: Engine, most: int = 100_000) -> None:
    """Steps to the end; a simulation that never ends fails the test."""
    for _ in range(most):
        if not one.has_work:
            return
        one.step()
    pytest.fail("it does not come to an end")


def served(one: Engine, tokens: bytes, output: int = 4, **fields: Any) -> EngineSequence:
    sequence = one.submit(tokens, output_tokens=output, **fields)
    run(one)
    return sequence


def history(one: Engine) -> list[tuple[float, int, int, float]]:
    """Duration, batch, queue and usage of each step."""
    steps = []
    while one.has_work:
        duration = one.step().duration
        steps.append((duration, len(one.running), len(one.waiting), one.cache.usage))
    return steps


def test_a_request_gets_all_its_tokens() -> None:
    sequence = served(engine(), PROMPT, output=10)
    assert (sequence.generated, sequence.finished, sequence.prompt_tokens) == (10, True, 256)


def test_an_idle_engine_has_no_work_and_no_time_passes() -> None:
    one = engine()
    assert (one.has_work, one.step().duration, one.now) == (False, 0, 0.0)


def test_the_same_requests_take_the_same_steps() -> None:
    histories = []
    for _ in range(2):
        one = engine(max_num_seqs=3, num_gpu_blocks=40)
        for number in range(12):
            one.submit(prompt(40 + number, "ab"[number % 2]), output_tokens=30 + number)
        histories.append(history(one))
    assert histories[0] == histories[1]


def test_time_is_reading_and_speaking() -> None:
    one = engine(prefill_tokens_per_second=1000.0, decode_tokens_per_second=10.0)
    served(one, PROMPT, output=5)
    assert one.now == pytest.approx(256 / 1000 + 4 / 10)


def test_a_year_of_decoding_is_over_at_once() -> None:
    one = engine(decode_tokens_per_second=1e-6)
    served(one, PROMPT, output=33)
    assert one.now == pytest.approx(32e6, rel=1e-3)


def test_a_batch_speaks_at_the_speed_of_one() -> None:
    one = engine(prefill_tokens_per_second=1e9, decode_tokens_per_second=10.0)
    for fill in "abcd":
        one.submit(prompt(20, fill), output_tokens=11)
    run(one)
    assert one.now == pytest.approx(1.0, rel=1e-3)


def test_no_more_run_than_fit_in_a_batch_and_the_others_wait_in_order() -> None:
    one = engine(max_num_seqs=2)
    sequences = [one.submit(prompt(20, fill), output_tokens=9) for fill in "abcde"]
    one.step()
    assert (one.running, list(one.waiting)) == (sequences[:2], sequences[2:])


def test_a_waiting_one_is_let_in_when_another_ends() -> None:
    one = engine(max_num_seqs=1)
    first, second = (one.submit(prompt(20, fill), output_tokens=2) for fill in "ab")
    order = []
    while one.has_work:
        order += one.step().advanced
    assert order == [first, first, second, second]


def test_a_long_prompt_is_read_in_several_steps() -> None:
    one = engine(max_num_batched_tokens=100)
    one.submit(PROMPT, output_tokens=1)
    assert [len(one.step().advanced) for _ in range(3)] == [0, 0, 1]


def test_those_that_speak_leave_less_room_for_reading() -> None:
    one = engine(max_num_batched_tokens=100, prefill_tokens_per_second=100.0, decode_tokens_per_second=1e9)
    one.submit(prompt(10), output_tokens=50)
    one.step()
    one.submit(PROMPT, output_tokens=1)
    assert one.step().duration == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("tokens", "cached"),
    [
        pytest.param(8, 0, id="less than a block"),
        pytest.param(16, 0, id="one block, and its last token must be computed"),
        pytest.param(17, 16, id="a block and a token"),
        pytest.param(32, 16, id="two blocks"),
        pytest.param(40, 32, id="two and a half blocks"),
        pytest.param(160, 144, id="ten blocks"),
    ],
)
def test_a_prompt_seen_before_is_cached_in_blocks_but_never_whole(tokens: int, cached: int) -> None:
    one = engine()
    assert served(one, prompt(tokens)).cached_tokens == 0
    assert served(one, prompt(tokens)).cached_tokens == cached


def test_only_the_common_beginning_is_cached() -> None:
    one = engine()
    served(one, PROMPT)
    assert served(one, PROMPT[:512] + prompt(128)).cached_tokens == 128


def test_what_is_cached_is_not_read_again() -> None:
    one = engine(prefill_tokens_per_second=100.0)
    served(one, PROMPT, output=1)
    before = one.now
    served(one, PROMPT, output=1)
    assert one.now - before == pytest.approx(0.16)


@pytest.mark.parametrize(
    "fields",
    [pytest.param({"seed": b"tenant"}, id="seed"), pytest.param({"adapter": "sql"}, id="adapter")],
)
def test_another_seed_or_adapter_shares_no_block(fields: dict[str, Any]) -> None:
    one = engine()
    served(one, PROMPT)
    assert served(one, PROMPT, **fields).cached_tokens == 0


def test_an_adapter_and_a_salt_of_one_name_share_no_block() -> None:
    one = engine()
    served(one, PROMPT, seed=b"sql")
    assert served(one, PROMPT, adapter="sql").cached_tokens == 0


def test_the_least_recently_used_prompt_is_evicted() -> None:
    one = engine(num_gpu_blocks=24)
    for fill in "ab":
        served(one, prompt(160, fill), output=4)
    served(one, prompt(160, "c"), output=4)
    assert served(one, prompt(160, "b"), output=1).cached_tokens == 144
    assert served(one, prompt(160, "a"), output=1).cached_tokens < 144


def test_the_usage_counts_blocks_in_use() -> None:
    one = engine(num_gpu_blocks=100)
    one.submit(prompt(160), output_tokens=40)
    one.step()
    assert one.cache.usage == 0.1


def test_prompts_that_do_not_fit_wait() -> None:
    one = engine(num_gpu_blocks=10)
    for fill in "ab":
        one.submit(prompt(90, fill), output_tokens=5)
    one.step()
    assert (len(one.running), len(one.waiting)) == (1, 1)


def test_without_blocks_the_youngest_gives_way_and_all_finish() -> None:
    one = engine(num_gpu_blocks=10)
    sequences = [one.submit(prompt(64, fill), output_tokens=60) for fill in "ab"]
    run(one)
    assert (one.counters.preemptions > 0, one.cache.usage) == (True, 0.0)
    assert [sequence.generated for sequence in sequences] == [60, 60]


def test_who_gave_way_is_first_in_the_queue() -> None:
    one = engine(num_gpu_blocks=10, max_num_seqs=2)
    old, young, third = (one.submit(prompt(64, fill), output_tokens=60) for fill in "abc")
    while not one.counters.preemptions:
        one.step()
    assert (one.running, list(one.waiting)) == ([old], [young, third])


def test_who_comes_back_takes_blocks_for_what_it_has_said_too() -> None:
    one = engine(num_gpu_blocks=12)
    one.submit(prompt(64, "a"), output_tokens=60)
    young = one.submit(prompt(64, "b"), output_tokens=60)
    while not one.counters.preemptions:
        one.step()
    while young not in one.running:
        one.step()
    assert (young.shared + young.unnamed) * 16 >= young.prompt_tokens + young.generated - 1


def test_giving_way_does_not_change_what_was_cached_at_first() -> None:
    one = engine(num_gpu_blocks=10)
    sequences = [one.submit(prompt(64, fill), output_tokens=60) for fill in "ab"]
    run(one)
    assert [sequence.cached_tokens for sequence in sequences] == [0, 0]


@pytest.mark.parametrize(
    ("tokens", "output"),
    [pytest.param(161, 1, id="prompt"), pytest.param(16, 145, id="output"), pytest.param(80, 81, id="both together")],
)
def test_what_can_never_fit_is_refused(tokens: int, output: int) -> None:
    one = engine(num_gpu_blocks=10)
    with pytest.raises(ValueError, match="KV cache has 10"):
        one.submit(prompt(tokens), output_tokens=output)
    assert not one.has_work


def test_what_just_fits_is_served() -> None:
    assert served(engine(num_gpu_blocks=10), prompt(80), output=80).generated == 80


def test_an_adapter_waits_for_a_slot() -> None:
    one = engine(max_loras=1)
    first = one.submit(prompt(20), output_tokens=3, adapter="sql")
    second = one.submit(prompt(20), output_tokens=3, adapter="chat")
    one.step()
    assert (one.running, one.running_adapters, one.waiting_adapters) == ([first], {"sql"}, {"chat"})
    run(one)
    assert second.finished


def test_one_slot_holds_many_requests_of_one_adapter_and_of_none() -> None:
    one = engine(max_loras=1)
    for adapter in ("sql", "sql", None):
        one.submit(prompt(20), output_tokens=3, adapter=adapter)
    one.step()
    assert len(one.running) == 3


def test_aborting_a_running_one_gives_back_its_blocks() -> None:
    one = engine()
    sequence = one.submit(PROMPT, output_tokens=50)
    one.step()
    one.abort(sequence)
    assert (one.cache.usage, one.has_work) == (0.0, False)


def test_aborting_within_the_prompt_gives_back_its_blocks() -> None:
    one = engine(max_num_batched_tokens=100)
    sequence = one.submit(PROMPT, output_tokens=50)
    one.step()
    one.abort(sequence)
    assert (one.cache.usage, one.has_work) == (0.0, False)


def test_aborting_a_waiting_one_takes_it_out_of_the_queue() -> None:
    one = engine(max_num_seqs=1)
    running, waiting = (one.submit(prompt(20, fill), output_tokens=5) for fill in "ab")
    one.step()
    one.abort(waiting)
    assert (one.running, list(one.waiting)) == ([running], [])


def test_aborting_one_leaves_what_it_shares_to_the_other() -> None:
    one = engine(num_gpu_blocks=100)
    served(one, PROMPT)
    first, second = (one.submit(PROMPT, output_tokens=50) for _ in range(2))
    one.step()
    one.abort(first)
    assert (one.cache.usage, second.cached_tokens) == (0.16, 240)


def test_aborting_twice_or_after_the_end_does_nothing() -> None:
    one = engine()
    sequence = served(one, PROMPT)
    one.abort(sequence)
    one.abort(sequence)
    assert one.cache.usage == 0.0


def test_the_counters_count_tokens() -> None:
    one = engine()
    for _ in range(2):
        served(one, PROMPT, output=7)
    counted = one.counters
    assert (counted.prompt_tokens, counted.generation_tokens, counted.finished) == (512, 14, 2)
    assert (counted.prefix_queries, counted.prefix_hits) == (512, 240)


def test_an_empty_prompt_is_one_token() -> None:
    assert served(engine(), b"", output=3).prompt_tokens == 1


submits = st.tuples(
    st.just("submit"), st.integers(0, 70), st.integers(1, 40), st.sampled_from("ab"), st.sampled_from([None, "x", "y"])
)
actions = st.lists(st.one_of(submits, st.tuples(st.just("abort"), st.integers(0, 9)), st.just(("step",))), max_size=40)


@given(actions=actions, seqs=st.integers(1, 4), blocks=st.integers(7, 20), batched=st.integers(4, 64))
def test_whatever_happens_all_finish_and_nothing_stays_in_use(
    actions: list[tuple[Any, ...]], seqs: int, blocks: int, batched: int
) -> None:
    one = engine(max_num_seqs=seqs, num_gpu_blocks=blocks, max_num_batched_tokens=batched, max_loras=1)
    alive: list[EngineSequence] = []
    for kind, *details in actions:
        if kind == "submit":
            tokens, output, fill, adapter = details
            alive.append(one.submit(prompt(tokens, fill), output_tokens=output, adapter=adapter))
        elif kind == "step":
            one.step()
        elif alive:
            one.abort(alive.pop(details[0] % len(alive)))
        assert 0 <= one.cache.usage <= 1
        assert len(one.running) <= seqs
    run(one)
    assert one.cache.usage == 0.0
    assert all(sequence.generated == sequence.output_tokens for sequence in alive)
