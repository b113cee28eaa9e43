"""Sixty-one good configurations that `check` accepts, and sixty bad ones that it refuses, in `tests/data/corpus`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from app.__main__ import main
from app.settings.layers import Sources
from containers.application import catalogue, check

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
GOOD, BAD = (sorted((CORPUS / kind).glob("*.yaml")) for kind in ("good", "bad"))
SECRET = "hunter2"

ENDPOINTS = "endpoints:\n  - {name: a, address: 127.0.0.1, port: 1}\n"
PLUGINS = '''
from __future__ import annotations

from pointsman import PluginParams, PluginRef, Scorer


class Cheapest:
    """Likes all alike."""

    class Params(PluginParams):
        label: str = "price"

    def __init__(self, params: Params) -> None:
        self.params = params

    def score(self, request, candidates):
        return [0.0 for _ in candidates]


class Chain:
    """Says what another one says."""

    class Params(PluginParams):
        other: PluginRef[Scorer]

    def __init__(self, params: Params) -> None:
        self.params = params

    def score(self, request, candidates):
        return self.params.other.score(request, candidates)


class Waits:
    async def score(self, request, candidates):
        return [0.0 for _ in candidates]


class TakesNothing:
    def score(self):
        return []


class Broken:
    """Can't be built."""

    def __init__(self) -> None:
        raise RuntimeError("it is broken")

    def score(self, request, candidates):
        return [0.0 for _ in candidates]
'''
"""What files of the corpus name by a path relative to the working directory."""

LINES = {
    "addresses": [1, 2],
    "args-beside-a-declared-name": [4],
    "cycle-of-references": [2],
    "disabled-and-needed": [2, 4],
    "disabled-and-referred-to": [5, 7],
    "discovery-and-endpoints": [3],
    "discovery-without-its-file": [1],
    "envelope": [1, 2],
    "feature-gates": [1],
    "forms-mixed": [2, 3, 4],
    "keys-missing": [1, 2, 3, 4],
    "kinds-in-wrong-sections": [3, 4, 5],
    "match-rules": [5, 6, 7],
    "pickers-two-in-a-profile": [3],
    "plugin-methods": [2, 3],
    "plugin-names-unknown": [2, 3, 4, 5],
    "plugin-of-another-kind": [2, 3],
    "plugin-that-can-not-be-built": [2, 3],
    "plugin-types-unknown": [2, 3, 4, 5, 6, 7],
    "ports-equal": [4],
    "profile-picker-needs-profiles": [2],
    "profile-pickers-two": [1],
    "profiles-all-disabled": [1],
    "profiles-that-are-no-lists": [1],
    "ranges-of-parameters": [2, 3, 4, 5, 6],
    "ranges": [1, 2, 3, 4],
    "stale-metrics-and-unknown-engines": [2, 3],
    "twice-a-key-in-two-spellings": [2],
    "twice-a-key": [3],
    "twice-a-secret": [4, 5],
    "twice-names": [1, 3, 4, 6],
    "types-of-a-secret": [3],
    "types-of-mappings-and-lists": [1, 2, 3, 4, 5],
    "types-of-parameters": [2, 3, 4, 5, 6],
    "types-of-scalars": [1, 2, 3, 4, 5, 6],
    "unknown-key-in-a-section": [2],
    "unknown-key-in-place": [3],
    "unknown-key-in-the-wrong-section": [1, 2],
    "unknown-key-that-is-a-secret": [3, 4],
    "unknown-keys-at-every-level": [1, 3, 6, 7, 9, 10, 11, 12],
    "unknown-order": [1],
    "values-empty": [1, 2, 3],
    "weight-in-filters": [3],
    "weights": [5, 6, 7, 8, 9],
    "yaml-alias-bomb": [],
    "yaml-alias-inside-itself": [2],
    "yaml-control-character": [1],
    "yaml-key-that-is-a-list": [1],
    "yaml-list-at-the-top": [1],
    "yaml-merge-of-text": [2],
    "yaml-missing-colon": [1],
    "yaml-open-bracket": [2],
    "yaml-open-quote-by-a-secret": [2],
    "yaml-secret-on-a-line-of-its-own": [5],
    "yaml-tab": [2],
    "yaml-tag-by-a-secret": [1, 2],
    "yaml-two-colons-by-a-secret": [3],
    "yaml-two-documents": [3],
    "yaml-unknown-alias-by-a-secret": [2],
    "yaml-wrong-indentation": [3],
}
"""The lines of each bad file with an error; empty where it does not matter which."""

good = pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
bad = pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)


def furnish(folder: Path) -> None:
    """Puts the files into `folder` that files of the corpus name."""
    (folder / "endpoints.yaml").write_text(ENDPOINTS, encoding="utf-8")
    (folder / "cheapest.py").write_text(PLUGINS, encoding="utf-8")


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    furnish(folder)
    return folder


@pytest.fixture(autouse=True)
def _working_directory(furnished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(furnished)


@good
def test_a_good_one_is_accepted(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "-c", str(path)])
    said = capsys.readouterr()
    assert (code, said.out.startswith("ok: ")) == (0, True), said.err
    assert all(": warning: " in line for line in said.err.splitlines())


@good
def test_a_good_one_written_out_is_accepted_and_means_the_same(path: Path) -> None:
    first = check(Sources([str(path)]))
    again = check(Sources(text=first.effective()))
    assert list(again.plan.profiles) == list(first.plan.profiles)
    assert (again.plan.profile_picker, again.plan.parsers) == (first.plan.profile_picker, first.plan.parsers)
    left = {"plugins", "scheduling_profiles", "request_handler"}
    assert again.configuration.settings.model_dump(exclude=left) == first.configuration.settings.model_dump(exclude=left)  # fmt: skip


@bad
def test_a_bad_one_is_refused_in_a_few_lines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "-c", str(path)])
    said = capsys.readouterr()
    assert (code, said.out) == (1, "")
    *faults, count = said.err.splitlines()
    assert len(faults) < 15
    assert all(line.startswith(f"{path}:") for line in faults)
    assert re.fullmatch(r"\d+ errors?", count)
    assert "Traceback" not in said.err


@bad
def test_the_errors_of_a_bad_one_are_at_the_lines_that_are_wrong(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "-c", str(path)])
    faults = [line.removeprefix(f"{path}:") for line in capsys.readouterr().err.splitlines()[:-1]]
    lines = {int(fault.partition(":")[0]) for fault in faults if ": warning: " not in fault}
    assert lines
    assert not LINES[path.stem] or sorted(lines) == LINES[path.stem], faults


@bad
def test_no_secret_of_a_bad_one_is_shown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "-c", str(path)])
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


# -- the corpus itself


def test_none_of_them_got_lost() -> None:
    assert (len(GOOD), len(BAD)) == (62, 60)


def test_the_lines_of_every_bad_one_are_listed() -> None:
    assert set(LINES) == {path.stem for path in BAD}


def test_a_secret_is_in_several_bad_ones_and_in_no_good_one() -> None:
    assert sum(SECRET in path.read_text(encoding="utf-8") for path in BAD) >= 8
    assert not [path for path in GOOD if SECRET in path.read_text(encoding="utf-8")]


def test_every_plugin_type_is_in_a_good_one() -> None:
    used = {word for path in GOOD for word in words(yaml.safe_load(path.read_text(encoding="utf-8")))}
    assert not set(catalogue().built_in) - used


def words(data: object) -> Iterator[str]:
    """All texts in `data` that may name a plugin type."""
    if isinstance(data, dict):
        for value in data.values():
            yield from words(value)
    elif isinstance(data, list):
        for item in data:
            yield from words(item)
    elif isinstance(data, str):
        yield data
