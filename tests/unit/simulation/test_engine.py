"""The simulated engine in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.simulation.engine import Engine, EngineOptions
from app.simulation.sequences import EngineSequence

PROMPT = bytes(range(256)) * 4
"""256 tokens in 16 blocks; any 64 consecutive tokens are distinct."""


def engine(**options: Any) -> Engine:
    return Engine(EngineOptions(**options))


def prompt(tokens: int, fill: str = "x") -> bytes:
    return fill.encode() * 4 * tokens


def run(one: Engine, most: int = 100_000) -> None:
    """Runs to completion. A simulation that doesn't complete fails the test."""
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


def test_time_is_the_sum_of_prefill_and_decode() -> None:
    one = engine(prefill_tokens_per_second=1000.0, decode_tokens_per_second=10.0)
    served(one, PROMPT, output=5)
    assert one.now == pytest.approx(256 / 1000 + 4 / 10)


def test_a_year_of_decoding_takes_no_real_time() -> None:
    one = engine(decode_tokens_per_second=1e-6)
    served(one, PROMPT, output=33)
    assert one.now == pytest.approx(32e6, rel=1e-3)


def test_a_batch_decodes_at_the_speed_of_one_sequence() -> None:
    one = engine(prefill_tokens_per_second=1e9, decode_tokens_per_second=10.0)
    for fill in "abcd":
        one.submit(prompt(20, fill), output_tokens=11)
    run(one)
    assert one.now == pytest.approx(1.0, rel=1e-3)


def test_sequences_beyond_the_batch_wait_in_order() -> None:
    one = engine(max_num_seqs=2)
    sequences = [one.submit(prompt(20, fill), output_tokens=9) for fill in "abcde"]
    one.step()
    assert (one.running, list(one.waiting)) == (sequences[:2], sequences[2:])


def test_a_waiting_sequence_is_scheduled_when_another_finishes() -> None:
    one = engine(max_num_seqs=1)
    first, second = (one.submit(prompt(20, fill), output_tokens=2) for fill in "ab")
    order = []
    while one.has_work:
        order += one.step().advanced
    assert order == [first, first, second, second]


def test_a_long_prompt_is_prefilled_in_several_steps() -> None:
    one = engine(max_num_batched_tokens=100)
    one.submit(PROMPT, output_tokens=1)
    assert [len(one.step().advanced) for _ in range(3)] == [0, 0, 1]


def test_decoding_sequences_reduce_the_prefill_budget() -> None:
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
def test_a_repeated_prompt_is_cached_in_blocks_but_never_completely(tokens: int, cached: int) -> None:
    one = engine()
    assert served(one, prompt(tokens)).cached_tokens == 0
    assert served(one, prompt(tokens)).cached_tokens == cached


def test_only_the_common_prefix_is_cached() -> None:
    one = engine()
    served(one, PROMPT)
    assert served(one, PROMPT[:512] + prompt(128)).cached_tokens == 128


def test_cached_tokens_are_not_prefilled_again() -> None:
    one = engine(prefill_tokens_per_second=100.0)
    served(one, PROMPT, output=1)
    before = one.now
    served(one, PROMPT, output=1)
    assert one.now - before == pytest.approx(0.16)


@pytest.mark.parametrize(
    "fields",
    [pytest.param({"seed": b"tenant"}, id="seed"), pytest.param({"adapter": "sql"}, id="adapter")],
)
def test_different_seeds_or_adapters_share_no_blocks(fields: dict[str, Any]) -> None:
    one = engine()
    served(one, PROMPT)
    assert served(one, PROMPT, **fields).cached_tokens == 0


def test_an_adapter_and_a_salt_with_the_same_name_share_no_blocks() -> None:
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


def test_without_free_blocks_the_youngest_is_preempted_and_all_finish() -> None:
    one = engine(num_gpu_blocks=10)
    sequences = [one.submit(prompt(64, fill), output_tokens=60) for fill in "ab"]
    run(one)
    assert (one.counters.preemptions > 0, one.cache.usage) == (True, 0.0)
    assert [sequence.generated for sequence in sequences] == [60, 60]


def test_a_preempted_sequence_is_first_in_the_queue() -> None:
    one = engine(num_gpu_blocks=10, max_num_seqs=2)
    old, young, third = (one.submit(prompt(64, fill), output_tokens=60) for fill in "abc")
    while not one.counters.preemptions:
        one.step()
    assert (one.running, list(one.waiting)) == ([old], [young, third])


def test_a_resumed_sequence_holds_blocks_for_its_generated_tokens() -> None:
    one = engine(num_gpu_blocks=12)
    one.submit(prompt(64, "a"), output_tokens=60)
    young = one.submit(prompt(64, "b"), output_tokens=60)
    while not one.counters.preemptions:
        one.step()
    while young not in one.running:
        one.step()
    assert (young.hashed_blocks + young.unhashed_blocks) * 16 >= young.prompt_tokens + young.generated - 1


def test_preemption_does_not_change_the_cached_tokens() -> None:
    one = engine(num_gpu_blocks=10)
    sequences = [one.submit(prompt(64, fill), output_tokens=60) for fill in "ab"]
    run(one)
    assert [sequence.cached_tokens for sequence in sequences] == [0, 0]


@pytest.mark.parametrize(
    ("tokens", "output"),
    [pytest.param(161, 1, id="prompt"), pytest.param(16, 145, id="output"), pytest.param(80, 81, id="both together")],
)
def test_a_sequence_that_can_never_fit_is_rejected(tokens: int, output: int) -> None:
    one = engine(num_gpu_blocks=10)
    with pytest.raises(ValueError, match="KV cache has 10"):
        one.submit(prompt(tokens), output_tokens=output)
    assert not one.has_work


def test_a_sequence_that_just_fits_is_served() -> None:
    assert served(engine(num_gpu_blocks=10), prompt(80), output=80).generated == 80


def test_an_adapter_waits_for_a_slot() -> None:
    one = engine(max_loras=1)
    first = one.submit(prompt(20), output_tokens=3, adapter="sql")
    second = one.submit(prompt(20), output_tokens=3, adapter="chat")
    one.step()
    assert (one.running, one.running_adapters, one.waiting_adapters) == ([first], {"sql"}, {"chat"})
    run(one)
    assert second.finished


def test_requests_of_one_adapter_share_a_slot() -> None:
    one = engine(max_loras=1)
    for adapter in ("sql", "sql", None):
        one.submit(prompt(20), output_tokens=3, adapter=adapter)
    one.step()
    assert len(one.running) == 3


def test_aborting_a_running_sequence_releases_its_blocks() -> None:
    one = engine()
    sequence = one.submit(PROMPT, output_tokens=50)
    one.step()
    one.abort(sequence)
    assert (one.cache.usage, one.has_work) == (0.0, False)


def test_aborting_during_prefill_releases_the_blocks() -> None:
    one = engine(max_num_batched_tokens=100)
    sequence = one.submit(PROMPT, output_tokens=50)
    one.step()
    one.abort(sequence)
    assert (one.cache.usage, one.has_work) == (0.0, False)


def test_aborting_a_waiting_sequence_removes_it_from_the_queue() -> None:
    one = engine(max_num_seqs=1)
    running, waiting = (one.submit(prompt(20, fill), output_tokens=5) for fill in "ab")
    one.step()
    one.abort(waiting)
    assert (one.running, list(one.waiting)) == ([running], [])


def test_aborting_a_sequence_keeps_blocks_that_others_share() -> None:
    one = engine(num_gpu_blocks=100)
    served(one, PROMPT)
    first, second = (one.submit(PROMPT, output_tokens=50) for _ in range(2))
    one.step()
    one.abort(first)
    assert (one.cache.usage, second.cached_tokens) == (0.16, 240)


def test_aborting_a_finished_sequence_does_nothing() -> None:
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


def test_an_empty_prompt_counts_as_one_token() -> None:
    assert served(engine(), b"", output=3).prompt_tokens == 1


submits = st.tuples(
    st.just("submit"), st.integers(0, 70), st.integers(1, 40), st.sampled_from("ab"), st.sampled_from([None, "x", "y"])
)
actions = st.lists(st.one_of(submits, st.tuples(st.just("abort"), st.integers(0, 9)), st.just(("step",))), max_size=40)


@given(actions=actions, seqs=st.integers(1, 4), blocks=st.integers(7, 20), batched=st.integers(4, 64))
def test_all_sequences_finish_and_all_blocks_are_released(
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


@given(
    st.lists(
        st.tuples(st.floats(0.0, 30.0), st.integers(1, 400), st.sampled_from("abc"), st.integers(1, 60)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([40, 80, 400]),
    st.sampled_from([0.0, 0.05]),
)
def test_fast_forwarding_is_stepping(arrivals: list[tuple[float, int, str, int]], blocks: int, slowdown: float) -> None:
    """Whatever arrives when, sequences get their first and last tokens at the same times, and the caches are equal."""
    options = {
        "num_gpu_blocks": blocks,
        "decode_slowdown": slowdown,
        "decode_tokens_per_second": 10.0,
        "max_num_seqs": 4,
    }
    arrivals = sorted(one for one in arrivals if -(-(one[1] + one[3]) // 16) <= blocks)
    histories = []
    for skips in (False, True):
        one, times = engine(**options), []
        waiting = list(arrivals)
        while waiting or one.has_work:
            until = waiting[0][0] if waiting else float("inf")
            if one.has_work and one.now < until:
                step = (one.fast_forward(until) if skips else None) or one.step()
                times += [(round(one.now, 6), seq.prompt_tokens) for seq in step.advanced if seq.finished]
            else:
                at, tokens, fill, output = waiting.pop(0)
                one.now = max(one.now, at)
                one.submit(prompt(tokens, fill), output_tokens=output)
        histories.append((times, sorted(one.cache._cached), one.counters, round(one.now, 6)))
    assert histories[0] == histories[1]
