"""`pointsman plugins` and `pointsman schema`: what they print, and their exit codes."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

import app.catalogue.catalogue as catalogue_module
from app.__main__ import main

ROOT = Path(__file__).parents[3]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that can't be imported."""
    point = EntryPoint("bad-[scorer]", "no_such_module:Bad", "pointsman.plugins")
    point = point._for(SimpleNamespace(name="acme", version="2.0"))
    monkeypatch.setattr(catalogue_module, "entry_points", lambda *, group: [point] if group else [])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def test_all_types_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "plugins")
    lines = out.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.strip().startswith("queue-scorer ")]
    assert all(text in lines[at] for text in ("Scorer", "beta", "Prefers endpoints with fewer"))
    assert "server-queue-length" in lines[at + 1]
    assert "use label-selector-filter" in out


@pytest.mark.usefixtures("broken")
def test_a_broken_package_is_listed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "plugins")
    (line,) = [line for line in out.splitlines() if "bad-[scorer]" in line]
    assert "broken" in line
    assert "acme 2.0" in line
    assert "no_such_module" in out
    assert "queue-scorer" in out


@pytest.mark.usefixtures("broken")
def test_json_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "plugins", "--json"))
    assert "queue-scorer" in [one["type"] for one in data["types"]]
    assert [(one["type"], one["packages"]) for one in data["broken"]] == [("bad-[scorer]", ["acme 2.0"])]


@pytest.mark.usefixtures("broken")
def test_markdown_is_the_page_whatever_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "plugins", "--markdown") == (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")


def test_one_type_is_described_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "plugins", "prefix-cache")
    for text in (
        "Each\ninstance has its own memory", "Scorer, Producer, OnScheduled", "hashBlockSize", "LRUIndexerSize",
        "31250", "1 to 1048576", "prefix-hits of prefix-cache", "  - type: prefix-cache\n",
    ):  # fmt: skip
        assert text in out


def test_one_type_without_parameters_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in printed(capsys, "plugins", "running-requests-size-scorer").splitlines()]
    assert lines[0] == ["running-requests-size-scorer"]
    assert ["parameters", "none"] in lines


def test_what_looks_like_markup_is_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text('class Mine:\n    """[red]Red[/red] :smile:"""\n    def score(self, r, c): ...\n')
    assert "[red]Red[/red] :smile:" in printed(capsys, "plugins", "own.py:Mine")


def test_one_type_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "plugins", "--json", "queue-scorer"))
    assert (data["type"], data["aliases"]) == ("queue-scorer", ["server-queue-length"])
    assert data["needs"] == [{"name": "WaitingQueueSize", "producer": "core-metrics-extractor"}]


def test_one_type_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "plugins", "--markdown", "queue-scorer").startswith("## queue-scorer\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("que-scorer", "unknown plugin type 'que-scorer'; did you mean 'queue-scorer'?"),
        ("", "unknown plugin type ''"),
        ("no_such_module:Mine", "there is no module"),
        ("nowhere.py:Mine", "can't be read"),
    ],
)
def test_a_type_that_is_not_there_is_wrong_usage(capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    assert main(["plugins", name]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


# -- schema


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "schema") == (ROOT / "docs" / "schema.json").read_text(encoding="utf-8")


def test_the_schema_is_written_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    assert not printed(capsys, "schema", "--output", str(path))
    assert path.read_bytes() == (ROOT / "docs" / "schema.json").read_bytes()


def test_a_file_that_can_t_be_written_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["schema", "--output", str(tmp_path / "nowhere" / "schema.json")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
