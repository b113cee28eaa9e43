"""`pointsman replay` and `pointsman tune`, as a user runs them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from app.__main__ import main

SMALL = ("--synthetic", "requests=120,rate=8,prefix-tokens=1024,prompt-tokens=512,output-tokens=32", "--endpoints", "3")
OLD = str(Path(__file__).parents[3] / "config" / "examples" / "queue-kv-prefix.yaml")

BROKEN_SCORER = """\
from pointsman import plugin


@plugin("broken")
class Broken:
    def score(self, request, candidates):
        raise LookupError("lost")
"""


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is process-wide: what the command sets up is taken back."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["replay", *SMALL, "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_configurations_are_compared_with_each_other_and_with_the_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    found = replayed(capsys, "--against", OLD, "--oracle", "--load", "0.8")
    names = [one["name"] for one in found["configurations"]]
    assert names == ["builtin:default", OLD, "greedy oracle"]
    ours, old, oracle = (one["mean"] for one in found["configurations"])
    assert oracle * 0.9 < ours < old
    assert [one["requests"] for one in found["configurations"]] == [120] * 3
    assert [one["second"] for one in found["comparisons"]] == names[1:]
    assert found["comparisons"][0]["compared"] == 120
    assert 0 < found["comparisons"][0]["differing"] < 120


def test_the_same_seed_gives_the_same_result(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (replayed(capsys, "--against", OLD, "--seed", "5", "--foreign", "0.2") for _ in range(2))
    assert first == second != replayed(capsys, "--against", OLD, "--seed", "6", "--foreign", "0.2")


@pytest.mark.parametrize(
    ("arguments", "worse"),
    [(("--slow", "0=0.3"), True), (("--bursts", "10s"), True), (("--speed", "2"), True), (("--speed", "0.2"), False)],
)
def test_the_engines_and_the_arrivals_can_be_changed(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], worse: bool
) -> None:
    ((before,), (after,)) = (replayed(capsys, *given)["configurations"] for given in ((), arguments))
    assert (after["mean"] > before["mean"]) is worse


def test_the_table_names_the_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", *SMALL, "--against", OLD]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "configuration",
        "TTFT",
        "mean",
        "s",
        "p50",
        "p90",
        "p99",
        "TPOT",
        "ms",
        "hits",
        "busiest/mean",
        "longest",
        "queue",
        "refused",
    ]
    assert lines[1].startswith("builtin:default ")
    assert any(line.startswith(f"{OLD} picked another endpoint than builtin:default for ") for line in lines)


@pytest.mark.parametrize("ending", ["html", "png", "svg"])
def test_a_plot_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"plot.{ending}"
    replayed(capsys, "--plot", str(path), "--oracle")
    content = path.read_bytes()
    assert content.startswith({"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml"}[ending])
    if ending == "html":
        assert all(word in content for word in (b"<svg", b"greedy oracle", b"builtin:default"))
        assert b"src=" not in content


def test_the_endpoints_of_the_configuration_are_not_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = replayed(capsys, "-c", "builtin:default", "-c", "builtin:prod")["configurations"]
    assert (found["name"], found["requests"]) == ("builtin:default + builtin:prod", 120)


def test_failures_of_plugins_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN_SCORER)
    profile = f"plugins: [{{name: mine, type: '{tmp_path / 'broken.py'}:Broken'}}]\n"
    assert main(["replay", *SMALL, "--config-text", profile]) == 0
    assert "120 failures of the plugin mine (Scorer): lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--trace", "missing.jsonl"), 2, "missing.jsonl: No such file or directory"),
        (("--trace", __file__), 1, f"{__file__}:1: a line must be a JSON object"),
        ((*SMALL, "--slow", "1=0.5", "--slow", "1=0.7"), 2, "--slow 1: the speed of this endpoint is given twice"),
        ((*SMALL, "--slow", "3=0.5"), 2, "--slow 3: there are only 3 endpoints, counted from 0"),
        ((*SMALL, "--plot", "p.pdf"), 2, "p.pdf: expected a file that ends in one of .html, .png, .svg, found .pdf"),
        ((*SMALL, "--plot", "missing/p.png"), 2, "missing/p.png: the folder does not exist"),
        ((*SMALL, "-c", "missing.yaml"), 2, "missing.yaml: No such file or directory"),
        ((*SMALL, "--set", "plugins[max-score-picker].parameters.x=1"), 1, "unknown key 'x'"),
        ((*SMALL, "--num-gpu-blocks", "8"), 2, "builtin:default: no request was served; all were refused"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str) -> None:
    assert main(["replay", *arguments]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--load", "0"), "expected a number above 0, found '0'"),
        (("--foreign", "1"), "expected a share from 0 to below 1, found '1'"),
        (("--slow", "x"), "expected an engine's number and its speed, such as 0=0.5, found 'x'"),
        (("--endpoints", "-1"), "expected a whole number above 0, found '-1'"),
        (("--cut", "15"), "expected a duration such as 250ms, 1.5s or 1h30m, found '15'"),
        (("--cut", "0s"), "expected a duration such as 250ms, 1.5s or 1h30m, found '0s'"),
        (("--bursts", "0s"), "found '0s'"),
        (("--slow", "0"), "expected an engine's number and its speed, such as 0=0.5, found '0'"),
        (("--synthetic", "requests=nan"), "'requests' must be a whole number of at least 1, found 'nan'"),
        (("--load", "0.5", "--speed", "2"), "not allowed with argument"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", *SMALL, *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


WEIGHT = "schedulingProfiles[default].plugins[prefix-cache-scorer].weight"
TUNE = ("tune", *SMALL, "--load", "1.0", "-c", OLD, "--trials", "6", "--seed", "1")


def test_tuning_finds_a_better_setting_and_writes_an_overlay(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "overlay.yaml"
    given = (*TUNE, "--range", "plugins[queue-scorer].parameters.addInFlight=[false, true]", "--output", str(output))
    assert main(list(given)) == 0
    out = capsys.readouterr().out
    assert "mean time to first token on the held-back 30 % of the trace" in out
    assert yaml.safe_load(output.read_text()) == {
        "plugins": [{"name": "queue-scorer", "parameters": {"addInFlight": True}}]
    }
    assert main(["check", "-c", OLD, "-c", str(output)]) == 0


def test_what_to_tune_can_be_in_the_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    section = tmp_path / "tune.yaml"
    section.write_text(f"tune:\n  parameters:\n    '{WEIGHT}': 0..6\n")
    assert main([*TUNE, "-c", str(section), "--objective", "p90"]) == 0
    first = capsys.readouterr().out
    overlay = yaml.safe_load(first)
    ((profile,), name) = overlay["schedulingProfiles"], "prefix-cache-scorer"
    assert profile["plugins"][0]["pluginRef"] == name
    assert main([*TUNE, "-c", str(section), "--objective", "p90"]) == 0
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "nothing to tune"),
        (("--range", "x"), 2, "--range x: expected PATH=RANGE, such as plugins[x].parameters.y=0.1..10"),
        (("--range", f"{WEIGHT}=2..1"), 2, "the first number must be less than the second, found '2..1'"),
        (("--range", f"{WEIGHT}=1..2", "--range", f"{WEIGHT}=1..3"), 2, "the range of this setting is given twice"),
        (("--range", f"{WEIGHT}=-3..2"), 1, "expected a number of at least 0, found -3"),
        (("--range", "nothing.here=0..2"), 1, "unknown key 'nothing'"),
        (("--range", "a[=0..2"), 2, "--set a[: expected path=value"),
        (("--config-text", "tune: {parameters: {a: '3'}}"), 1, "expected LOW..HIGH or [VALUE, …], found '3'"),
        (
            ("--range", f"{WEIGHT}=0..6", "--hold-back", "1"),
            2,
            "--hold-back: expected a share between 0 and 1, found 1.0",
        ),
        (("--range", f"{WEIGHT}=0..6", "--trials", "0"), 2, "--trials: expected a whole number above 0, found 0"),
        (("--range", f"{WEIGHT}=0..6", "--output", "missing/o.yaml"), 2, "missing/o.yaml: the folder does not exist"),
        (("--range", "plugins[queue-scorer].parameters.x=0..6"), 1, "unknown key 'x'"),
    ],
)
def test_errors_of_tuning(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert main([*TUNE, *arguments]) == code
    assert message in capsys.readouterr().err
