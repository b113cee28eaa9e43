"""The Prometheus text format, as engines write it and as others might write it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from app.extension.fleet import ScrapeError
from app.fleet.exposition import Exposition, Sample, mean, total

DATA = Path(__file__).parents[2] / "data"
VLLM = DATA / "vllm-0.32-cpu.txt"


def read(page: bytes | str, name: str = "load") -> list[Sample]:
    return Exposition(page).samples([name]).get(name, [])


def values(page: bytes | str, name: str = "load") -> list[float]:
    return [sample.value for sample in read(page, name)]


# -- real pages


@pytest.mark.parametrize(
    ("page", "name", "value"),
    [
        ("vllm-0.32-cpu.txt", "vllm:num_requests_running", 8),
        ("vllm-0.32-cpu.txt", "vllm:num_requests_waiting", 24),
        ("vllm-0.32-cpu.txt", "vllm:kv_cache_usage_perc", 0.003173924985503729),
        ("vllm-0.32-cpu.txt", "python_gc_objects_collected_total", 14763),
        ("llamacpp.txt", "llamacpp:requests_processing", 1),
        ("llamacpp.txt", "llamacpp:requests_deferred", 8),
        ("llamacpp.txt", "llamacpp:prompt_tokens_total", 50),
    ],
)
def test_a_metric_of_an_engine_s_page_is_read(page: str, name: str, value: float) -> None:
    assert values((DATA / page).read_bytes(), name)[0] == value


def test_labels_of_an_engine_s_page_are_read() -> None:
    (sample,) = read(VLLM.read_bytes(), "vllm:cache_config_info")
    assert (sample.labels["block_size"], sample.labels["num_gpu_blocks"]) == ("32", "32768")


def test_a_metric_with_a_longer_name_is_another_one() -> None:
    assert [sample.labels for sample in read(VLLM.read_bytes(), "vllm:num_requests_waiting")] == [
        {"engine": "0", "model_name": "tiny"}
    ]


@pytest.mark.parametrize(
    ("prefix", "mentioned"), [("vllm:", True), ("python_", True), ("sglang:", False), ("num_requests", False)]
)
def test_a_page_mentions_the_prefixes_of_its_metrics(prefix: str, mentioned: bool) -> None:
    assert Exposition(VLLM.read_bytes()).mentions(prefix) is mentioned


def test_a_page_that_begins_with_a_metric_mentions_it() -> None:
    assert Exposition("vllm:x 1\n").mentions("vllm:")


# -- the format


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("load 3", Sample("load", {}, 3), id="no labels"),
        pytest.param("load{} 3", Sample("load", {}, 3), id="empty labels"),
        pytest.param('load{a="1"} 3', Sample("load", {"a": "1"}, 3), id="one label"),
        pytest.param('load{a="1",b="2"} 3', Sample("load", {"a": "1", "b": "2"}, 3), id="two labels"),
        pytest.param('load{a="1",} 3', Sample("load", {"a": "1"}, 3), id="comma at the end"),
        pytest.param('load { a = "1" , b="2" } 3', Sample("load", {"a": "1", "b": "2"}, 3), id="spaces"),
        pytest.param("load\t3 ", Sample("load", {}, 3), id="tab, and space at the end"),
        pytest.param("load 3\r", Sample("load", {}, 3), id="carriage return"),
        pytest.param("load 3 1700000000000", Sample("load", {}, 3), id="timestamp"),
        pytest.param("load 3 1700000000.123", Sample("load", {}, 3), id="timestamp in seconds"),
        pytest.param("load 3 -5", Sample("load", {}, 3), id="negative timestamp"),
        pytest.param('load 3 # {trace="x"} 0.5 17.1', Sample("load", {}, 3), id="exemplar"),
        pytest.param('load{a="1"} 3 17 # {t="x"} 0.5', Sample("load", {"a": "1"}, 3), id="timestamp and exemplar"),
        pytest.param('load{a="x\\"y"} 3', Sample("load", {"a": 'x"y'}, 3), id="escaped quote"),
        pytest.param('load{a="x\\\\n"} 3', Sample("load", {"a": "x\\n"}, 3), id="escaped backslash"),
        pytest.param('load{a="x\\ny"} 3', Sample("load", {"a": "x\ny"}, 3), id="escaped line end"),
        pytest.param('load{a="x}y,z=# 1"} 3', Sample("load", {"a": "x}y,z=# 1"}, 3), id="punctuation in a label"),
        pytest.param('load{a=""} 3', Sample("load", {"a": ""}, 3), id="empty label"),
        pytest.param('load{a="zug 🚂"} 3', Sample("load", {"a": "zug 🚂"}, 3), id="label not in ASCII"),
        pytest.param("load 1.5e+03", Sample("load", {}, 1500), id="exponent"),
        pytest.param("load -0.5", Sample("load", {}, -0.5), id="negative"),
        pytest.param("load +Inf", Sample("load", {}, math.inf), id="infinity"),
        pytest.param("load -Inf", Sample("load", {}, -math.inf), id="minus infinity"),
    ],
)
def test_a_line_is_read(line: str, expected: Sample) -> None:
    assert read(f"# TYPE load gauge\n{line}\n") == [expected]


def test_nan_is_read_as_nan() -> None:
    assert math.isnan(values("load NaN\n")[0])


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("load 1\nload 2\n", id="no comment at all"),
        pytest.param("# HELP load Load.\nload 1\nload 2\n", id="no type"),
        pytest.param("# HELP load Load.\r\n# TYPE load gauge\r\nload 1\r\nload 2\r\n", id="carriage returns"),
        pytest.param("\n\n# a comment\nload 1\n\nother 5\nload 2\n", id="empty lines and another metric between"),
        pytest.param("# TYPE load gauge\nload 1\nload 2\n# EOF\n", id="OpenMetrics"),
        pytest.param("# TYPE load gauge\nload 1\nload 2\n# EOF", id="OpenMetrics without a line end after EOF"),
        pytest.param(b"load 1\nload 2\n", id="bytes"),
    ],
)
def test_every_line_of_a_metric_is_read_in_order(page: bytes | str) -> None:
    assert values(page) == [1, 2]


def test_a_metric_with_only_a_description_has_no_samples() -> None:
    assert Exposition("# HELP load Load.\n# TYPE load gauge\n").samples(["load"]) == {}


def test_only_the_requested_metrics_are_returned() -> None:
    found = Exposition("one 1\ntwo 2\nthree 3\n").samples(["three", "one", "four"])
    assert {name: [sample.value for sample in samples] for name, samples in found.items()} == {"one": [1], "three": [3]}


# -- pages that are rejected


@pytest.mark.parametrize(
    ("page", "said"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \r\n\n", "is empty", id="blank"),
        pytest.param(b"<!DOCTYPE html>\n<html></html>\n", "not a metrics page", id="HTML"),
        pytest.param(b'{"detail": "Not Found"}\n', "not a metrics page", id="JSON"),
        pytest.param(b'["load 1"]\n', "not a metrics page", id="JSON list"),
        pytest.param(b"404 page not found\n", "not a metrics page", id="error text"),
        pytest.param(b"load 1\nload 2", "is cut off", id="cut off in a number"),
        pytest.param(b"load 1\nlo", "is cut off", id="cut off in a name"),
        pytest.param(b"load \xff\n", "not UTF-8 text: byte 5", id="not UTF-8"),
        pytest.param(b"\x1f\x8b\x08\x00", "not UTF-8", id="compressed"),
    ],
)
def test_an_incomplete_or_other_page_is_rejected(page: bytes, said: str) -> None:
    with pytest.raises(ScrapeError, match=said):
        Exposition(page)


@pytest.mark.parametrize("cut", [1, 100, 5000, 53000])
def test_a_real_page_that_is_cut_off_is_rejected(cut: int) -> None:
    page = VLLM.read_bytes()
    with pytest.raises(ScrapeError, match="is cut off"):
        Exposition(page[: page.index(b" ", cut)])


BAD = [
    pytest.param("load", id="no value, and the line ends"),
    pytest.param("load ", id="no value"),
    pytest.param("load many", id="no number"),
    pytest.param("load 1_000", id="underscore in a number"),
    pytest.param("load 1 2 3", id="too many numbers"),
    pytest.param("load{a=1} 3", id="label without quotes"),
    pytest.param('load{a="1} 3', id="label without a closing quote"),
    pytest.param('load{a="1" b="2"} 3', id="labels without a comma"),
    pytest.param('load{"a"="1"} 3', id="label in quotes"),
]


@pytest.mark.parametrize("line", BAD[1:])
def test_a_bad_line_makes_its_metric_unreadable(line: str) -> None:
    with pytest.raises(ScrapeError, match="a line of the metrics page"):
        read(f"load 1\n{line}\nload 2\n")


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_does_not_affect_other_metrics(line: str) -> None:
    assert values(f"other 1\n{line}\nother 2\n", "other") == [1, 2]


# -- sums over label sets

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("numbers", "summed", "averaged"),
    [
        pytest.param([], None, None, id="none"),
        pytest.param([3.0], 3, 3, id="one"),
        pytest.param([1.0, 3.0], 4, 2, id="two"),
        pytest.param([NAN, 2.0, INF], 2, 2, id="only the finite count"),
        pytest.param([NAN, INF], None, None, id="none is finite"),
        pytest.param([0.0], 0, 0, id="zero is a number"),
    ],
)
def test_samples_are_summed_and_averaged(numbers: list[float], summed: float | None, averaged: float | None) -> None:
    samples = [Sample("load", {}, number) for number in numbers]
    assert (total(samples), mean(samples)) == (summed, averaged)
