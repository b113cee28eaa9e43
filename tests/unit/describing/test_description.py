"""Descriptions of plugin types: what they say, and that their examples load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import yaml

import app.catalogue.catalogue as catalogue_module
from app.catalogue.loading import PluginTypeError
from app.describing.description import (
    Description,
    Fact,
    Parameter,
    built_in_types,
    describe_type,
    installed_types,
)
from app.describing.markdown import page
from app.settings.layers import Sources
from containers.application import catalogue, check

ROOT = Path(__file__).parents[3]
ALL = built_in_types(catalogue())

OWN = '''
    from __future__ import annotations
    from typing import Annotated, Literal
    from pydantic import Field
    from pointsman import Candidates, Duration, InferenceRequest, PluginParams, PluginRef, Scorer, Scores

    class Step(PluginParams):
        """One step."""

        at: int = Field(ge=2)
        """Where it begins."""
        again: Step | None = None

    class MixedScorer:
        """Says what others say. [red]Not markup.[/red]

        More of it.
        """

        class Params(PluginParams):
            """What it needs."""

            word: str
            """A word."""
            mode: Literal["fast", "slow"]
            wait: Duration
            share: float = Field(gt=0, lt=1)
            step: Step
            steps: tuple[Step, ...]
            names: dict[str, str]
            either: Annotated[int, Field(ge=5)] | str
            base: PluginRef[Scorer]

        def __init__(self, params: Params) -> None: ...

        def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
            return [1.0] * len(candidates)
'''  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin of one's own, in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.py"
    path.write_text(dedent(OWN), encoding="utf-8")
    return path


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Makes the catalogue see entry points `name: (value, package)`, and modules `third_party_…` with a text."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(points: dict[str, tuple[str, str]], **modules: str) -> None:
        found = []
        for name, (value, package) in points.items():
            point = EntryPoint(name.split("@")[0], value, "pointsman.plugins")
            found.append(point._for(SimpleNamespace(name=package, version="1.0")))
        monkeypatch.setattr(catalogue_module, "entry_points", lambda *, group: found if group else ())
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(dedent(text), encoding="utf-8")
            monkeypatch.delitem(sys.modules, name, raising=False)

    return installed


def about(name: str) -> Description:
    return describe_type(name, catalogue())


def test_the_committed_page_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert committed == page(ALL), "run: make docs"


def test_every_built_in_type_is_described_once() -> None:
    types = {kind.mark.type for kind in catalogue().built_in.values()}
    assert sorted(one.type for one in ALL) == sorted(types)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.type)
def test_every_type_and_parameter_says_what_it_is_for(one: Description) -> None:
    assert one.summary.endswith(".")
    assert not [parameter.key for parameter in one.parameters if not parameter.purpose]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.type)
def test_every_example_is_a_configuration_that_loads(
    one: Description, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoints.yaml").write_text("endpoints: [{name: a, address: 127.0.0.1, port: 8000}]\n")
    checked = check(Sources(text=one.example))
    warnings = [fault.message for fault in checked.configuration.faults.warnings]
    assert not [message for message in warnings if "deprecated" not in message]
    assert one.type in checked.plan.plugins


def test_every_example_on_the_page_is_one_of_them() -> None:
    text = page(ALL)
    assert text.count("```yaml\n") == len(ALL)
    assert all(f"```yaml\n{one.example}```" in text for one in ALL)


def test_a_description_has_everything_that_is_known_about_a_type() -> None:
    one = about("prefix-cache")
    assert (one.type, one.origin, one.category, one.stability) == ("prefix-cache", "built in", "affinity", "beta")
    assert one.extension_points == ["Scorer", "Producer", "OnScheduled"]
    assert one.parameters[2] == Parameter(
        key="lruIndexerCapacity",
        takes="whole number",
        purpose="Blocks remembered per endpoint (LRU).",
        default="31250",
        range="1 to 100000000",
        other_names=("LRUIndexerSize", "lruCapacityPerServer"),
    )
    assert one.produces == [Fact("prefix-hits", "prefix-cache"), Fact("prefix-shape", "prefix-cache")]


def test_the_summary_is_the_first_sentence() -> None:
    assert about("prefill-filter").summary == "Keeps the endpoints whose role includes prefill."


def test_facts_that_depend_on_parameters_are_those_of_the_example() -> None:
    assert about("prefix-cache-scorer").needs[0] == Fact("prefix-hits", "approx-prefix-cache-producer")
    assert about("inflight-load-producer").wants[0].name == "prefix-hits"


def test_a_nested_parameter_is_described_with_its_path() -> None:
    keys = [parameter.key for parameter in about("match-profile-picker").parameters]
    assert {"rules", "rules[].profile", "rules[].promptTokens.min"} <= set(keys)
    (profile,) = [p for p in about("match-profile-picker").parameters if p.key == "rules[].profile"]
    assert (profile.required, profile.default) == (True, "")


@pytest.mark.parametrize("name", ["server-queue-length", "plugins.scorers.queue:QueueScorer"])
def test_an_alias_and_an_address_lead_to_the_type(name: str) -> None:
    assert about(name) == about("queue-scorer")


def test_a_deprecated_name_says_what_to_use() -> None:
    assert about("by-label").deprecated == {"by-label": "label-selector-filter"}


def test_a_type_that_is_not_there_is_an_error() -> None:
    with pytest.raises(PluginTypeError, match="unknown plugin type"):
        about("nothing")


# -- one's own


@pytest.mark.usefixtures("own")
def test_a_class_in_a_file_is_described_with_an_example_that_loads() -> None:
    one = about("own.py:MixedScorer")
    assert (one.type, one.origin, one.summary) == ("own.py:MixedScorer", "", "Says what others say.")
    assert "More of it." in one.purpose
    plan = check(Sources(text=one.example)).plan
    assert plan.plugins["mixed-scorer"].type_name == "own.py:MixedScorer"
    assert yaml.safe_load(one.example)["plugins"][0]["parameters"] == {
        "word": "example", "mode": "fast", "wait": "1s", "share": 0.5, "step": {"at": 2}, "steps": [{"at": 2}],
        "names": {}, "either": 5, "base": "active-request-scorer",
    }  # fmt: skip


@pytest.mark.usefixtures("own")
def test_a_model_within_itself_is_described_once() -> None:
    keys = [parameter.key for parameter in about("own.py:MixedScorer").parameters]
    assert [key for key in keys if key.startswith("step.")] == ["step.at", "step.again"]


def test_a_class_whose_facts_can_t_be_read_is_described_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.py").write_text(
        "class Bad:\n    def score(self, r, c): ...\n    @classmethod\n    def needs(cls, p): 1 / 0\n    wants = (3,)\n",
        encoding="utf-8",
    )
    one = about("bad.py:Bad")
    assert (one.purpose, one.summary, one.needs, one.wants) == ("", "", (), ())


# -- installed ones

GOOD = '''
    from pointsman import plugin

    @plugin("good-scorer", aliases=("never-installed",), stability="alpha")
    class Good:
        """Is good."""

        def score(self, request, candidates):
            return [1.0] * len(candidates)
'''


def test_installed_types_are_described_with_their_package(install: Callable[..., None]) -> None:
    install({"good-scorer": ("third_party_good:Good", "acme")}, third_party_good=GOOD)
    (one,), broken = installed_types(catalogue())
    assert (one.type, one.origin, one.stability, one.aliases, broken) == ("good-scorer", "acme 1.0", "alpha", (), [])
    assert about("good-scorer") == one


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        pytest.param("1 / 0", "ZeroDivisionError", id="fails"),
        pytest.param("raise SystemExit('bye')", "SystemExit: bye", id="exits"),
        pytest.param("import no_such_package", "no_such_package", id="lacks what it needs"),
        pytest.param("class Bad: ...", "no extension point", id="is no plugin"),
        pytest.param("", "Bad", id="lacks the class"),
        pytest.param(
            "class Meta(type):\n    def __getattribute__(cls, n): raise KeyError(n)\nclass Bad(metaclass=Meta): ...",
            "KeyError", id="is hostile",
        ),
    ],
)  # fmt: skip
def test_a_broken_one_does_not_stop_the_rest(install: Callable[..., None], source: str, reason: str) -> None:
    points = {"bad": ("third_party_bad:Bad", "umbrella"), "good-scorer": ("third_party_good:Good", "acme")}
    install(points, third_party_good=GOOD, third_party_bad=source)
    (one,), (bad,) = installed_types(catalogue())
    assert (one.type, bad.type, bad.packages, reason in bad.reason) == ("good-scorer", "bad", ["umbrella 1.0"], True)


def test_two_packages_with_one_type_are_reported(install: Callable[..., None]) -> None:
    install({"twice@1": ("a:A", "acme"), "twice@2": ("b:B", "umbrella")})
    types, (one,) = installed_types(catalogue())
    assert (types, one.packages, "several packages" in one.reason) == ([], ["acme 1.0", "umbrella 1.0"], True)


def test_an_installed_type_hidden_by_a_built_in_one_is_reported(install: Callable[..., None]) -> None:
    install({"queue-scorer": ("a:A", "acme")})
    _, (one,) = installed_types(catalogue())
    assert (one.type, "built-in" in one.reason) == ("queue-scorer", True)
