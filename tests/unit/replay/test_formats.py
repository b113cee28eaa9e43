"""Traces in every format, good and broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.replay.formats import SHOWN, read_trace
from app.replay.synthetic import Synthetic, make_trace, parse_synthetic
from app.replay.trace import Segment, TraceError, TraceRequest

MOONCAKE = {"timestamp": 1500, "input_length": 700, "output_length": 20, "hash_ids": [4, 9]}
LOGGED = {
    "event": "request", "timestamp": "2026-12-03T10:00:02.500Z", "duration_ms": 2000.0, "model": "llama",
    "prompt_tokens": 300, "output_tokens": 50,
}  # fmt: skip


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_mooncake_s_lines_are_blocks_of_512_tokens(tmp_path: Path) -> None:
    trace = read_trace(
        written(tmp_path, {**MOONCAKE, "timestamp": 2500}, MOONCAKE, "", {**MOONCAKE, "output_length": 0})
    )
    assert trace[0] == TraceRequest(0.0, (Segment(512, 4), Segment(188, 9)), 20)
    assert [(one.arrival, one.output_tokens) for one in trace] == [(0.0, 20), (0.0, 1), (1.0, 20)]


def test_our_access_log_is_a_trace(tmp_path: Path) -> None:
    prefix = [[64, "a1"], [128, "b2"]]
    trace = read_trace(
        written(
            tmp_path,
            {"event": "started", "timestamp": "2026-12-03T10:00:00Z"},
            LOGGED,
            {**LOGGED, "timestamp": "2026-12-03T10:00:04Z", "prefix": prefix},
            {**LOGGED, "timestamp": "2026-12-03T10:00:06Z", "prefix": prefix, "output_tokens": None},
            {
                **LOGGED,
                "timestamp": "2026-12-03T10:00:08Z",
                "prompt_tokens": None,
                "estimated_prompt_tokens": 300,
                "output_tokens": None,
                "ttft_ms": 500.0,
                "tpot_ms": 15.0,
            },
            {**LOGGED, "prompt_tokens": None},
            {"event": "request refused", "timestamp": "2026-12-03T10:00:09Z"},
        )
    )
    assert [one.arrival for one in trace] == [0.0, 1.5, 3.5, 5.5]
    assert [one.model for one in trace] == ["llama"] * 4
    assert [one.output_tokens for one in trace] == [50, 50, 1, 101]
    assert trace[1].prompt[:2] == trace[2].prompt[:2] == (Segment(64, 0xA1), Segment(128, 0xB2))
    assert [one.prompt_tokens for one in trace] == [300] * 4
    assert len({one.prompt[-1] for one in trace}) == 4


def test_a_prefix_longer_than_the_prompt_is_scaled_to_it(tmp_path: Path) -> None:
    (one,) = read_trace(written(tmp_path, {**LOGGED, "prefix": [[400, "a"], [200, "b"]]}))
    assert one.prompt == (Segment(200, 10), Segment(100, 11))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "a line must be a JSON object"),
        ("[1]", "a line must be a JSON object, found list"),
        ({**MOONCAKE, "timestamp": -1}, "'timestamp' must be a number of at least 0, found -1"),
        ({**MOONCAKE, "input_length": 0}, "'input_length' must be a number of at least 1, found 0"),
        ({**MOONCAKE, "output_length": "x"}, "'output_length' must be a number of at least 0, found 'x'"),
        ({**MOONCAKE, "hash_ids": [1]}, "a prompt of 700 tokens has 2 hash ids of 512 tokens, found 1"),
        ({**MOONCAKE, "hash_ids": [1, "b"]}, "'hash_ids' must be a list of integers"),
    ],
)
def test_a_broken_line_is_reported_with_its_place(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, MOONCAKE, line, MOONCAKE)
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value).startswith(f"{path}:2: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestamp": "yesterday"}, "'timestamp' must be an ISO 8601 time, found 'yesterday'"),
        ({"duration_ms": -1}, "'duration_ms' must be a number of at least 0, found -1"),
        ({"prompt_tokens": 1.5}, "'prompt_tokens' must be a whole number of at least 1, found 1.5"),
        ({"prefix": 3}, "'prefix' must be a list of [tokens, hash] pairs, found 3"),
        ({"prefix": [[64]]}, "'prefix' must be a list of [tokens, hash] pairs, found [64] in it"),
    ],
)
def test_a_broken_line_of_an_access_log_too(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path, {**LOGGED, **change})
    with pytest.raises(TraceError) as error:
        read_trace(path)
    assert str(error.value) == f"{path}:1: {message}"


def test_all_errors_are_reported_up_to_a_bound(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(written(tmp_path, MOONCAKE, *["{"] * 100))
    assert len(error.value.errors) == SHOWN


@pytest.mark.parametrize(
    ("lines", "message"), [(({"a": 1},), "unknown format with 'a'"), ((), "there is no request in it")]
)
def test_a_file_that_is_no_trace(tmp_path: Path, lines: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(written(tmp_path, *lines))


def test_a_synthetic_trace_is_as_its_numbers_say() -> None:
    numbers = parse_synthetic("requests=2000, rate=10,prefixes=2,prefix-tokens=640,prompt-tokens=100,turns=4,burst=2")
    trace = make_trace(numbers, seed=1)
    assert len(trace) == 2000
    assert trace[-1].arrival == pytest.approx(200, rel=0.15)
    assert len({one.prompt[:10] for one in trace}) == 2
    assert [trace[2 * n].arrival == trace[2 * n + 1].arrival for n in range(1000)] == [True] * 1000
    assert sum(one.output_tokens for one in trace) / 2000 == pytest.approx(256, rel=0.1)
    assert trace == make_trace(numbers, seed=1) != make_trace(numbers, seed=2)


def test_turns_of_a_conversation_begin_with_what_came_before() -> None:
    trace = make_trace(Synthetic(requests=6, prefixes=1, turns=3), seed=1)
    first, second, third = (one.prompt for one in trace[:3])
    assert second[: len(first)] == first
    assert third[: len(second)] == second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rat=1", "unknown number 'rat'; there are requests, rate,"),
        ("rate=0", "'rate' must be a number above 0, found '0'"),
        ("rate=x", "'rate' must be a number above 0, found 'x'"),
        ("requests=1.5", "'requests' must be a whole number of at least 1, found '1.5'"),
        ("turns=0", "'turns' must be a whole number of at least 1, found '0'"),
        ("turns=2,turns=3", "'turns' is given twice"),
    ],
)
def test_wrong_numbers_are_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("'", "'")):
        parse_synthetic(text)
