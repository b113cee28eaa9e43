"""The forms of the founding discussion: each example means what it says, and the forms go together as layers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.checking import Checked
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources
from containers.application import Application, catalogue, check
from tests.support import running
from tests.support.engines import fake_engine, says
from tests.support.running import FREE_PORTS, Running

EXAMPLES = Path(__file__).parents[2] / "config" / "examples"
REFERENCES, INLINE, SECTIONS = (EXAMPLES / f"seed-{name}.yaml" for name in ("references", "inline", "sections"))
CATALOGUE = catalogue()

Profiles = Mapping[str, tuple[Sequence[str], Mapping[str, float], str]]
"""Filters in order, scorers with their weights, and the picker of each profile."""


def checked(*layers: str | Path, sets: Sequence[str] = ()) -> Checked:
    """The layers, which must have no errors: files by their paths, the last one may be text."""
    files = [str(layer) for layer in layers if isinstance(layer, Path)]
    text = next((layer for layer in layers if isinstance(layer, str)), None)
    return check(Sources(files, text, sets=sets), CATALOGUE)


def errors(*layers: str | Path) -> list[str]:
    """What is wrong with the layers, as it is printed, less the name of the text."""
    try:
        checked(*layers)
    except ConfigurationError as error:
        return [str(f).removeprefix("--config-text:") for f in error.faults if f.severity == "error"]
    return []


def profiles(found: Checked) -> Profiles:
    return {p.name: (list(p.filters), dict(p.scorers), p.picker) for p in found.plan.profiles}


def described(found: Checked) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
    """Type and written parameters of each plugin that the configuration lists."""
    return {p.name: (p.type_name, json.loads(p.parameters)) for p in found.plan.plugins.values() if not p.added}


def file(folder: Path, text: str, name: str = "base.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


# -- what the examples mean

SEED_PREFIX = {"hashBlockSize": 64, "maxPrefixBlocksToMatch": 128, "lruIndexerCapacity": 50000}
MEANINGS = [
    pytest.param(
        REFERENCES,
        {"my-prefix-scorer": ("prefix-cache", SEED_PREFIX), "my-load-filter": ("load-aware-filter", {})},
        {"default": (["my-load-filter"], {"my-prefix-scorer": 20.0}, "max-score-picker")},
        "single-profile-handler",
        id="references",
    ),
    pytest.param(
        INLINE,
        {
            "prefill/prefill-endpoints": ("prefill-endpoints", {}),
            "prefill/prefix-cache": ("prefix-cache", {"lruIndexerCapacity": 5000}),
            "prefill/server-queue-length": ("server-queue-length", {}),
            "decode/decode-endpoints": ("decode-endpoints", {}),
            "decode/kv-cache-util": ("kv-cache-util", {}),
        },
        {
            "prefill": (
                ["prefill/prefill-endpoints"],
                {"prefill/prefix-cache": 2.0, "prefill/server-queue-length": 1.0},
                "max-score-picker",
            ),
            "decode": (["decode/decode-endpoints"], {"decode/kv-cache-util": 1.0}, "max-score-picker"),
        },
        "header-profile-handler",
        id="inline",
    ),
    pytest.param(
        SECTIONS,
        {
            "my-prefix-scorer": ("prefix-cache", SEED_PREFIX),
            "default/load-aware-filter": ("load-aware-filter", {}),
            "default/kv-cache-util": ("kv-cache-util", {}),
            "default/max-score-picker": ("max-score-picker", {}),
        },
        {
            "default": (
                ["default/load-aware-filter"],
                {"my-prefix-scorer": 20.0, "default/kv-cache-util": 1.0},
                "default/max-score-picker",
            )
        },
        "single-profile-handler",
        id="sections",
    ),
]
EXAMPLE = pytest.mark.parametrize("example", [REFERENCES, INLINE, SECTIONS], ids=lambda path: path.stem)


@pytest.mark.parametrize(("example", "plugins", "expected", "picker"), MEANINGS)
@pytest.mark.parametrize("by", ["file", "text"])
def test_an_example_means_what_it_says(
    example: Path, by: str, plugins: Mapping[str, Any], expected: Profiles, picker: str
) -> None:
    found = checked(example if by == "file" else example.read_text(encoding="utf-8"))
    assert described(found) == plugins
    assert profiles(found) == expected
    assert found.plan.profile_picker == picker


def test_every_example_is_among_those_tried() -> None:
    assert set(EXAMPLES.glob("seed-*.yaml")) == {REFERENCES, INLINE, SECTIONS}


def test_the_older_default_is_an_example() -> None:
    found = check(Sources((str(EXAMPLES / "queue-kv-prefix.yaml"),)))
    assert profiles(found)["default"][1] == {
        "queue-scorer": 2.0,
        "kv-cache-utilization-scorer": 2.0,
        "prefix-cache-scorer": 3.0,
    }


@EXAMPLE
def test_an_example_says_on_its_first_line_which_form_it_is_and_has_no_pool(example: Path) -> None:
    first, *rest = example.read_text(encoding="utf-8").splitlines()
    assert first.startswith("# The form with ")
    assert not [line for line in rest if line.startswith(("pool", "#"))]


@EXAMPLE
def test_an_example_has_no_warning_but_that_the_header_chooses(example: Path) -> None:
    warnings = [str(fault) for fault in checked(example).configuration.faults.warnings]
    assert len(warnings) == (example == INLINE)
    assert all("the header EPP-Profile selects one, by default 'prefill'" in warning for warning in warnings)


@EXAMPLE
def test_an_example_written_out_in_the_schemas_form_means_the_same(example: Path) -> None:
    found = checked(example)
    again = checked(found.effective())
    assert (profiles(again), again.plan.profile_picker) == (profiles(found), found.plan.profile_picker)


# -- whose is an instance

SHARED = [
    pytest.param(
        "plugin_references: [{name: mine, plugin: prefix-cache}]\n"
        "scheduling_profiles: [{name: a, plugin-references: [{name: mine}]}, {name: b, plugin-references: [{name: mine}]}]",
        id="references",
    ),
    pytest.param(
        "plugins: [{name: mine, type: prefix-cache}]\nendpointPickingProfiles: [{a: [mine]}, {b: [{name: mine, weight: 2}]}]",
        id="in place",
    ),
    pytest.param(
        "plugins: [{name: mine, type: prefix-cache}]\n"
        "schedulingProfiles: [{name: a, scorers: [mine]}, {name: b, scorers: [{name: mine}]}]",
        id="sections",
    ),
    pytest.param(
        "plugins: [{name: mine, type: prefix-cache}]\n"
        "schedulingProfiles: [{name: a, plugins: [{pluginRef: mine}]}, {name: b, plugins: [{pluginRef: mine}]}]",
        id="the schema",
    ),
]  # fmt: skip
OWN = [
    pytest.param("endpointPickingProfiles: [{a: [prefix-cache]}, {b: [{name: prefix-cache}]}]", id="in place"),
    pytest.param("endpointPickingProfiles: [{a: [{type: prefix-cache}], b: [{type: prefix-cache}]}]", id="by type"),
    pytest.param("schedulingProfiles: [{name: a, scorers: [prefix-cache]}, {name: b, scorers: [prefix-cache]}]", id="sections"),
]  # fmt: skip


def scorers(text: str) -> list[tuple[str, object]]:
    """Name and object of the one scorer of each profile, as the container builds them."""
    generation = Application(checked(text)).generation
    return [tuple(profile._scorers[0]) for profile in generation.profiles().values()]  # type: ignore[misc]


@pytest.mark.parametrize("text", SHARED)
def test_a_declared_plugin_is_one_object_in_all_profiles(text: str) -> None:
    (first, one), (second, other) = scorers(text)
    assert (first, second) == ("mine", "mine")
    assert one is other


@pytest.mark.parametrize("text", OWN)
def test_a_plugin_in_place_is_its_profiles_own_and_named_after_it(text: str) -> None:
    (first, one), (second, other) = scorers(text)
    assert (first, second) == ("a/prefix-cache", "b/prefix-cache")
    assert one is not other


def test_a_plugin_in_two_sections_is_one_object(tmp_path: Path) -> None:
    both = file(
        tmp_path,
        "class Both:\n"
        "    def filter(self, request, candidates): return [True for _ in candidates]\n"
        "    def score(self, request, candidates): return [1.0 for _ in candidates]\n",
        "both.py",
    )
    text = f"""
schedulingProfiles:
  - name: a
    filters: [{{name: both, type: '{both}:Both'}}]
    scorers: [{{name: both, weight: 3}}]
"""
    found = checked(text)
    assert profiles(found) == {"a": (["a/both"], {"a/both": 3.0}, "max-score-picker")}
    profile = Application(found).generation.profiles()["a"]
    assert profile._filters[0].plugin is profile._scorers[0].plugin


def test_a_plugin_in_one_section_does_only_that(tmp_path: Path) -> None:
    both = file(
        tmp_path,
        "class Both:\n"
        "    def filter(self, request, candidates): return [True for _ in candidates]\n"
        "    def score(self, request, candidates): return [1.0 for _ in candidates]\n",
        "both.py",
    )
    text = f"schedulingProfiles: [{{name: a, filters: [{{name: both, type: '{both}:Both'}}]}}]"
    assert profiles(checked(text)) == {"a": (["a/both"], {}, "max-score-picker")}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("endpointPickingProfiles: [{a: [random-picker]}, {b: [queue-scorer]}]", id="in place"),
        pytest.param("schedulingProfiles: [{name: a, picker: random-picker}, {name: b, scorers: [queue-scorer]}]", id="sections"),
    ],
)  # fmt: skip
def test_a_picker_in_place_is_not_lent_to_a_profile_without_one(text: str) -> None:
    assert [p.picker for p in checked(text).plan.profiles] == ["a/random-picker", "max-score-picker"]


def test_a_declared_picker_is_that_of_profiles_without_one() -> None:
    text = "plugins: [{type: random-picker}]\nendpointPickingProfiles: [{a: [queue-scorer]}, {b: [prefix-cache]}]"
    assert [p.picker for p in checked(text).plan.profiles] == ["random-picker", "random-picker"]


# -- how a plugin may be written where it is used

PLACED = [
    pytest.param("prefix-cache", "a/prefix-cache", {}, 1.0, id="a type as text"),
    pytest.param("{name: prefix-cache}", "a/prefix-cache", {}, 1.0, id="a type as name"),
    pytest.param("{type: prefix-cache}", "a/prefix-cache", {}, 1.0, id="a type as type"),
    pytest.param("{name: mine, type: prefix-cache}", "a/mine", {}, 1.0, id="a name and a type"),
    pytest.param("{name: mine, type: prefix-cache, args: {hashBlockSize: 9}, weight: 3}", "a/mine", {"hashBlockSize": 9}, 3.0, id="all of it"),
    pytest.param("{name: prefix-cache, parameters: {hashBlockSize: 9}}", "a/prefix-cache", {"hashBlockSize": 9}, 1.0, id="parameters"),
    pytest.param("{name: prefix-cache, args: }", "a/prefix-cache", {}, 1.0, id="args without a value"),
    pytest.param("{name: prefix-cache, args: {}}", "a/prefix-cache", {}, 1.0, id="empty args"),
    pytest.param("{name: shared, weight: 0}", "shared", {"hashBlockSize": 5}, 0.0, id="a declared one"),
    pytest.param("{type: shared}", "shared", {"hashBlockSize": 5}, 1.0, id="a declared one by type"),
    pytest.param("shared", "shared", {"hashBlockSize": 5}, 1.0, id="a declared one as text"),
]  # fmt: skip
PLACES = [
    pytest.param("endpointPickingProfiles: [{{a: [{}]}}]", id="in place"),
    pytest.param("endpointPickingProfiles: [{{name: a, plugins: [{}]}}]", id="in place, written out"),
    pytest.param("endpointPickingProfiles: [{{name: a, scorers: [{}]}}]", id="in place, by sections"),
    pytest.param("schedulingProfiles: [{{name: a, scorers: [{}]}}]", id="sections"),
]


@pytest.mark.parametrize(("entry", "name", "parameters", "weight"), PLACED)
@pytest.mark.parametrize("place", PLACES)
def test_a_plugin_is_written_where_it_is_used(
    place: str, entry: str, name: str, parameters: Mapping[str, Any], weight: float
) -> None:
    declared = "plugins: [{name: shared, type: prefix-cache, parameters: {hashBlockSize: 5}}]\n"
    found = checked(declared + place.format(entry))
    assert profiles(found) == {"a": ([], {name: weight}, "max-score-picker")}
    assert described(found)[name] == ("prefix-cache", parameters)


def test_two_of_a_type_in_a_profile_have_names_of_their_own() -> None:
    text = """
endpointPickingProfiles:
  - a:
      - {name: short, type: prefix-cache, args: {hashBlockSize: 3}}
      - {name: long, type: prefix-cache, args: {hashBlockSize: 400}}
"""
    assert {name: p["hashBlockSize"] for name, (_, p) in described(checked(text)).items()} == {"a/short": 3, "a/long": 400}  # fmt: skip


def test_several_profiles_may_stand_in_one_mapping() -> None:
    text = "endpointPickingProfiles:\n  - prefill: [queue-scorer]\n    decode: [prefix-cache]\n"
    assert list(profiles(checked(text))) == ["prefill", "decode"]


@pytest.mark.parametrize("name", ["decode-1", "a/b", "1", "profile"])
def test_a_profile_of_the_short_form_may_be_called_what_is_no_key_of_a_profile(name: str) -> None:
    found = profiles(checked(f"endpointPickingProfiles: [{{{name}: [queue-scorer]}}]"))
    assert found == {name: ([], {f"{name}/queue-scorer": 1.0}, "max-score-picker")}


SPELLINGS = [
    "{p}: [{{name: m, plugin: prefix-cache, parameters: {{{h}: 9}}}}]\n{s}: [{{name: a, {r}: [{{name: m}}]}}]",
    "plugins: [{{name: m, type: prefix-cache, parameters: {{{h}: 9}}}}]\n{e}: [{{a: [m]}}]",
]


@pytest.mark.parametrize("text", SPELLINGS, ids=["references", "in place"])
@pytest.mark.parametrize(
    ("p", "s", "r", "e", "h"),
    [
        ("plugin-references", "scheduling-profiles", "plugin-references", "endpoint-picking-profiles", "hash-block-size"),
        ("plugin_references", "scheduling_profiles", "plugin_references", "endpoint_picking_profiles", "hash_block_size"),
        ("pluginReferences", "schedulingProfiles", "pluginReferences", "endpointPickingProfiles", "hashBlockSize"),
    ],
    ids=["kebab", "snake", "camel"],
)  # fmt: skip
def test_the_keys_of_every_form_may_be_spelt_in_any_way(text: str, p: str, s: str, r: str, e: str, h: str) -> None:
    found = checked(text.format(p=p, s=s, r=r, e=e, h=h))
    assert described(found) == {"m": ("prefix-cache", {"hashBlockSize": 9})}
    assert profiles(found) == {"a": ([], {"m": 1.0}, "max-score-picker")}


# -- order

ORDERED = [
    pytest.param(
        "plugins: [{{type: decode-filter}}, {{type: prefill-filter}}, {{type: load-aware-filter}}]\n"
        "schedulingProfiles: [{{name: a, plugins: [{{pluginRef: decode-filter}}, {{pluginRef: prefill-filter}},"
        " {{pluginRef: load-aware-filter, {}}}]}}]",
        "", id="the schema",
    ),
    pytest.param(
        "plugin_references: [{{plugin: decode-filter}}, {{plugin: prefill-filter}}, {{plugin: load-aware-filter}}]\n"
        "scheduling_profiles: [{{name: a, plugin-references: [{{name: decode-filter}}, {{name: prefill-filter}},"
        " {{name: load-aware-filter, {}}}]}}]",
        "", id="references",
    ),
    pytest.param(
        "endpointPickingProfiles: [{{a: [decode-filter, prefill-filter, {{name: load-aware-filter, {}}}]}}]",
        "a/", id="in place",
    ),
    pytest.param(
        "schedulingProfiles: [{{name: a, filters: [decode-filter, prefill-filter, {{name: load-aware-filter, {}}}]}}]",
        "a/", id="sections",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("before: decode-filter", ["load-aware", "decode", "prefill"], id="before the first"),
        pytest.param("before: prefill-filter", ["decode", "load-aware", "prefill"], id="before the second"),
        pytest.param("after: decode-filter", ["decode", "load-aware", "prefill"], id="after the first"),
        pytest.param("after: prefill-filter", ["decode", "prefill", "load-aware"], id="after the last"),
    ],
)
@pytest.mark.parametrize(("text", "prefix"), ORDERED)
def test_an_entry_says_before_or_after_which_one_it_stands(
    text: str, prefix: str, order: str, expected: Sequence[str]
) -> None:
    filters, _, _ = profiles(checked(text.format(order)))["a"]
    assert list(filters) == [f"{prefix}{name}-filter" for name in expected]


@pytest.mark.parametrize(("text", "prefix"), ORDERED)
def test_an_order_beside_what_is_not_there_is_an_error(text: str, prefix: str) -> None:
    (found,) = errors(text.format("before: nobody"))
    assert "no item in this list has the name given in 'before'" in found
    assert f"names: {prefix}decode-filter, {prefix}prefill-filter" in found


# -- switched off

DISABLED = [
    pytest.param(
        "plugin_references: [{name: m, plugin: prefix-cache, enabled: false}, {plugin: queue-scorer}]\n"
        "scheduling_profiles: [{name: a, plugin-references: [{name: m}, {name: queue-scorer}]}]",
        id="a declared plugin",
    ),
    pytest.param(
        "plugin_references: [{name: m, plugin: prefix-cache}, {plugin: queue-scorer}]\n"
        "scheduling_profiles: [{name: a, plugin-references: [{name: m, enabled: false}, {name: queue-scorer}]}]",
        id="an entry of references",
    ),
    pytest.param("endpointPickingProfiles: [{a: [{name: prefix-cache, enabled: false}, queue-scorer]}]", id="in place"),
    pytest.param(
        "plugins: [{name: m, type: prefix-cache}]\nendpointPickingProfiles: [{a: [{name: m, enabled: false}, queue-scorer]}]",
        id="a declared plugin in place",
    ),
    pytest.param("schedulingProfiles: [{name: a, scorers: [{name: prefix-cache, enabled: false}, queue-scorer]}]", id="in a section"),
    pytest.param(
        "schedulingProfiles: [{name: a, picker: {name: random-picker, enabled: false}, scorers: [queue-scorer]}]",
        id="the picker",
    ),
    pytest.param(
        "endpointPickingProfiles: [{name: a, plugins: [queue-scorer]}, {name: b, enabled: false, plugins: [prefix-cache]}]",
        id="a profile",
    ),
]  # fmt: skip


@pytest.mark.parametrize("text", DISABLED)
def test_what_is_switched_off_does_not_run(text: str) -> None:
    ((name, (filters, weights, picker)),) = profiles(checked(text)).items()
    assert (name, filters, list(weights)) == ("a", [], [next(n for n in weights if n.endswith("queue-scorer"))])
    assert picker == "max-score-picker"


def test_a_plugin_in_place_in_a_profile_that_is_switched_off_is_not_told_as_forgotten() -> None:
    text = "endpointPickingProfiles: [{name: a, plugins: [queue-scorer]}, {name: b, enabled: false, plugins: [prefix-cache]}]"
    assert not checked(text).configuration.faults.warnings


# -- errors

WRONG = [
    # keys that a declared plugin can't have in a profile
    pytest.param(
        "plugins: [{name: q, type: prefix-cache}]\nendpointPickingProfiles:\n- a:\n  - name: q\n    args: {hashBlockSize: 3}\n",
        ["5:5: endpointPickingProfiles[0].a[0].args: 'args' can't be set for the declared plugin 'q' in a profile; set it where"],
        id="args beside a declared name",
    ),
    pytest.param(
        "plugins: [{name: q, type: prefix-cache}]\nendpointPickingProfiles:\n- a:\n  - name: q\n    type: queue-scorer\n",
        ["5:5: endpointPickingProfiles[0].a[0].type: 'type' can't be set for the declared plugin 'q' in a profile; set it where"],
        id="type beside a declared name",
    ),
    pytest.param(
        "plugins: [{name: q, type: prefix-cache}]\nschedulingProfiles:\n- name: a\n  scorers:\n  - name: q\n    args: {}\n",
        ["6:5: schedulingProfiles[0].scorers[0].args: 'args' can't be set for the declared plugin 'q' in a profile"],
        id="args beside a declared name in a section",
    ),
    pytest.param(
        "plugin_references:\n- name: q\n  plugin: prefix-cache\nscheduling_profiles:\n- name: a\n  plugin-references:\n"
        "  - name: q\n    args: {}\n",
        ["8:5: scheduling_profiles[0].plugin-references[0].args: unknown key 'args'"],
        id="args in plugin-references",
    ),
    # forms that do not go together
    pytest.param(
        "plugins: [{type: queue-scorer}]\nplugin_references: [{plugin: prefix-cache}]\n",
        ["2:1: plugin_references: 'plugin_references' can't be combined with 'plugins' at --config-text:1:1 in one document"],
        id="plugins and plugin_references",
    ),
    pytest.param(
        "schedulingProfiles: [{name: a}]\nendpointPickingProfiles: [{b: [queue-scorer]}]\n",
        ["2:1: endpointPickingProfiles: 'endpointPickingProfiles' can't be combined with 'schedulingProfiles' at --config-text:1:1"],
        id="two lists of profiles",
    ),
    pytest.param(
        "plugin_references: [{plugin: prefix-cache}]\nendpointPickingProfiles: [{b: [prefix-cache]}]\n",
        ["2:1: endpointPickingProfiles: 'endpointPickingProfiles' can't be combined with 'plugin_references' at --config-text:1:1"],
        id="plugin_references and endpointPickingProfiles",
    ),
    pytest.param(
        "plugins: [{type: prefix-cache}]\nscheduling_profiles:\n- name: a\n  plugin-references: [{name: prefix-cache}]\n",
        ["4:3: scheduling_profiles[0].plugin-references: 'plugin-references' can't be combined with 'plugins' in one document"],
        id="plugins and plugin-references",
    ),
    pytest.param(
        "plugins: [{type: prefix-cache}]\nschedulingProfiles:\n- name: a\n  plugins: [{pluginRef: prefix-cache}]\n"
        "  picker: random-picker\n",
        ["5:3: schedulingProfiles[0].picker: 'picker' can't be combined with 'plugins' in a profile"],
        id="plugins and a section in a profile",
    ),
    pytest.param(
        "plugin_references: [{plugin: prefix-cache}]\nscheduling_profiles:\n- name: a\n"
        "  plugin-references: [{name: prefix-cache}]\n  scorers: [queue-scorer]\n",
        ["5:3: scheduling_profiles[0].scorers: 'scorers' can't be combined with 'plugin-references' in a profile"],
        id="plugin-references and a section in a profile",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- name: a\n  plugins: [prefix-cache]\n  filters: [decode-filter]\n",
        ["4:3: endpointPickingProfiles[0].filters: 'filters' can't be combined with 'plugins' in a profile"],
        id="plugins and a section in place",
    ),
    # kinds and weights
    pytest.param(
        "schedulingProfiles:\n- name: a\n  filters: [queue-scorer]\n  scorers:\n  - decode-filter\n  picker: prefix-cache\n",
        [
            "3:13: schedulingProfiles[0].filters[0]: 'a/queue-scorer' is not a filter; it is a scorer",
            "5:5: schedulingProfiles[0].scorers[0]: 'a/decode-filter' is not a scorer; it is a filter",
            "6:3: schedulingProfiles[0].picker: 'a/prefix-cache' is not a picker; it is a scorer",
        ],
        id="each kind in a wrong section",
    ),
    pytest.param(
        "plugins:\n- type: openai-parser\nschedulingProfiles:\n- name: a\n  filters:\n  - openai-parser\n",
        ["6:5: schedulingProfiles[0].filters[0]: 'openai-parser' is not a filter; list it under plugins only"],
        id="what belongs in no section",
    ),
    pytest.param(
        "schedulingProfiles:\n- name: a\n  filters:\n  - name: decode-filter\n    weight: 2\n",
        ["5:5: schedulingProfiles[0].filters[0].weight: unknown key 'weight'"],
        id="a weight in filters",
    ),
    pytest.param(
        "schedulingProfiles:\n- name: a\n  picker: {name: random-picker, weight: 2}\n",
        ["3:33: schedulingProfiles[0].picker.weight: unknown key 'weight'"],
        id="a weight of the picker",
    ),
    pytest.param(
        "schedulingProfiles:\n- name: a\n  scorers:\n  - {name: queue-scorer, weight: -2}\n",
        ["4:26: schedulingProfiles[0].scorers[0].weight: expected a number of at least 0, found -2"],
        id="a negative weight in scorers",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - name: queue-scorer\n    weight: .nan\n",
        ["4:5: endpointPickingProfiles[0].a[0].weight: expected a"],
        id="a weight in place that is no number",
    ),
    pytest.param(
        "plugin_references: [{plugin: queue-scorer}]\nscheduling_profiles:\n- name: a\n  plugin-references:\n"
        "  - name: queue-scorer\n    weight: true\n",
        ["6:5: scheduling_profiles[0].plugin-references[0].weight: expected a number, found the boolean true"],
        id="a boolean as weight in references",
    ),
    # names that are not there
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - prefix-cach\n  - name: queue-scorr\n  - {name: x, type: kv-cache-utill}\n",
        [
            "3:5: endpointPickingProfiles[0].a[0]: 'prefix-cach' is neither a declared plugin nor a plugin type; did you mean 'prefix-cache'?",
            "4:5: endpointPickingProfiles[0].a[1].name: 'queue-scorr' is neither a declared plugin nor a plugin type; did you mean 'queue-scorer'?",
            "5:15: endpointPickingProfiles[0].a[2].type: unknown plugin type 'kv-cache-utill'; did you mean 'kv-cache-util'?",
        ],
        id="unknown types in place",
    ),
    pytest.param(
        "plugin_references:\n- name: mine\n  plugin: prefix-cach\nscheduling_profiles:\n- name: a\n  plugin-references:\n"
        "  - name: min\n",
        [
            "3:3: plugin_references[0].plugin: unknown plugin type 'prefix-cach'; did you mean 'prefix-cache'?",
            "7:5: scheduling_profiles[0].plugin-references[0].name: no plugin is named 'min'; did you mean 'mine'?",
        ],
        id="unknown type and name in references",
    ),
    pytest.param(
        "plugin_references:\n- name: mine\n  plugin: prefix-cache\nscheduling_profiles:\n- name: a\n  plugin-references:\n"
        "  - name: queue-scorer\n",
        ["7:5: scheduling_profiles[0].plugin-references[0].name: no plugin is named 'queue-scorer'; add '"],
        id="a type that is not declared in references",
    ),
    pytest.param(
        "schedulingProfiles:\n- name: a\n  filters: [load-aware-filtr]\n  picker: max-score-pickr\n",
        [
            "3:13: schedulingProfiles[0].filters[0]: 'load-aware-filtr' is neither a declared plugin nor a plugin type; did you mean 'load-aware-filter'?",
            "4:3: schedulingProfiles[0].picker: 'max-score-pickr' is neither a declared plugin nor a plugin type; did you mean 'max-score-picker'?",
        ],
        id="unknown types in sections",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - name: prefix-cache\n    args:\n      LRUIndexerSiez: 5000\n",
        ["5:7: endpointPickingProfiles[0].a[0].args.LRUIndexerSiez: unknown key 'LRUIndexerSiez'; did you mean"],
        id="an unknown argument",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - name: prefix-cache\n    args:\n      LRUIndexerSize: many\n",
        ["5:7: endpointPickingProfiles[0].a[0].args.LRUIndexerSize: expected a whole number, found the text 'many'"],
        id="an argument of a wrong type",
    ),
    pytest.param(
        "plugin_references:\n- plugin: prefix-cache\n  parameters:\n    hash-block-size: 0\n",
        ["4:5: plugin_references[0].parameters.hash-block-size: expected a number from 1 to 1048576, found 0"],
        id="a parameter out of range in references",
    ),
    # the same twice
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - prefix-cache\n  - prefix-cache\n",
        ["4:5: endpointPickingProfiles[0].a[1]: duplicate name 'prefix-cache' in this list; first at --config-text:3:5"],
        id="twins in place",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- a:\n  - {name: prefix-cache, args: {hashBlockSize: 3}}\n"
        "  - {name: prefix-cache, args: {hashBlockSize: 4}}\n",
        ["4:5: endpointPickingProfiles[0].a[1]: duplicate name 'prefix-cache' in this list; first at --config-text:3:5"],
        id="twins in place with args",
    ),
    pytest.param(
        "schedulingProfiles:\n- name: a\n  scorers:\n  - prefix-cache\n  - prefix-cache\n",
        ["5:5: schedulingProfiles[0].scorers[1]: duplicate name 'prefix-cache' in this list; first at --config-text:4:5"],
        id="twins in a section",
    ),
    pytest.param(
        "plugin_references: [{name: a, plugin: queue-scorer}, {name: a, plugin: prefix-cache}]\n",
        ["1:54: plugin_references[1]: duplicate name 'a' in this list; first at --config-text:1:21"],
        id="twins among references",
    ),
    pytest.param(
        "endpointPickingProfiles:\n- a: [prefix-cache]\n- a: [queue-scorer]\n",
        ["3:3: endpointPickingProfiles[1].a: duplicate name 'a' in this list; first at --config-text:2:3"],
        id="two profiles of a name",
    ),
    # other than what is due
    pytest.param("endpointPickingProfiles: {a: [queue-scorer]}\n", ["1:1: endpointPickingProfiles: expected a list, found a mapping"], id="profiles as a mapping"),
    pytest.param("endpointPickingProfiles: prefill\n", ["1:1: endpointPickingProfiles: expected a list, found "], id="profiles as text"),
    pytest.param("plugin_references: {name: a, plugin: queue-scorer}\n", ["1:1: plugin_references: expected a list, found a mapping"], id="references as a mapping"),
    pytest.param("plugin_references: 5\n", ["1:1: plugin_references: expected a list, found "], id="references as a number"),
    pytest.param(
        "plugin_references: [{plugin: queue-scorer}]\nschedulingProfiles:\n- name: a\n  plugin-references: queue-scorer\n",
        ["4:3: schedulingProfiles[0].plugin-references: expected a list, found"], id="a profile's references as text",
    ),
    pytest.param("schedulingProfiles:\n- name: a\n  filters: decode-filter\n", ["3:3: schedulingProfiles[0].filters: expected a list, found"], id="filters as text"),
    pytest.param("schedulingProfiles:\n- name: a\n  picker: [random-picker]\n", ["3:3: schedulingProfiles[0].picker: expected the name of a plugin"], id="a list as picker"),
    pytest.param("endpointPickingProfiles:\n- a:\n  - 5\n", ["3:5: endpointPickingProfiles[0].a[0]: expected the name of a plugin or a mapping, found a number"], id="a number as plugin"),
    pytest.param("endpointPickingProfiles:\n- a:\n  - weight: 5\n", ["3:5: endpointPickingProfiles[0].a[0]: a plugin needs a 'name' or a 'type'"], id="neither name nor type"),
    pytest.param("endpointPickingProfiles:\n- a: queue-scorer\n", ["2:3: endpointPickingProfiles[0].a: expected the plugins of the profile 'a' as a list, found text"], id="a profile that is text"),
    pytest.param("endpointPickingProfiles:\n- a:\n", ["2:3: endpointPickingProfiles[0].a: expected the plugins of the profile 'a' as a list, found nothing"], id="a profile that is nothing"),
    pytest.param("endpointPickingProfiles:\n- a\n", ["2:3: endpointPickingProfiles[0]: expected a mapping, found the text 'a'"], id="a profile's bare name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_what_is_wrong_is_told_once_at_its_place(text: str, expected: Sequence[str]) -> None:
    found = errors(text)
    assert len(found) == len(expected), found
    assert all(fault.startswith(start) for fault, start in zip(found, expected, strict=True)), found


OF_ANOTHER_FORM = [
    pytest.param("plugin_references:\n- name: a\n  type: queue-scorer\n", "3:3:", "type", "plugin", id="type in references"),
    pytest.param("plugins:\n- name: a\n  plugin: queue-scorer\n", "3:3:", "plugin", "type", id="plugin in the schema"),
    pytest.param("schedulingProfiles:\n- name: a\n  plugins:\n  - name: b\n", "4:5:", "name", "pluginRef", id="name in the schema"),
    pytest.param(
        "plugin_references: [{plugin: queue-scorer}]\nscheduling_profiles:\n- name: a\n  plugin-references:\n"
        "  - pluginRef: queue-scorer\n",
        "5:5:", "pluginRef", "name", id="pluginRef in references",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "key", "missing"), OF_ANOTHER_FORM)
def test_a_key_of_another_form_is_unknown_and_the_forms_own_is_missing(
    text: str, place: str, key: str, missing: str
) -> None:
    found = errors(text)
    assert [fault for fault in found if fault.startswith(place) and f"unknown key {key!r}" in fault], found
    told = [fault.partition("the key ")[2].split()[0] for fault in found if "is missing" in fault]
    assert told == [repr(missing)], found


# -- the slips of the discussion, each alone and where it was made

DISCUSSED_REFERENCES = """\
plugin_references:
- name: "my-prefix-scorer"
  plugin: "prefix-cache"
  parameters:
     hash-block-size: 64
     max-prefix-blocks-to-match: 128
     lru-indexer-capacity: 50000
- name: "my-load-filter"
  plugin: "load-aware-filter"

scheduling_profiles:
- name: default
  plugin-references:
  - name: "my-load-filter"
  - name: "my-prefix-scorer"
    weight: 20
"""
DISCUSSED_INLINE = """\
endpointPickingProfiles:
- prefill:
  - name: prefill-endpoints
  - name: prefix-cache
    weight: 2
    args:
      LRUIndexerSize: 5000
  - name: server-queue-length
- decode:
  - name: decode-endpoints
  - name: kv-cache-util
"""
SLIPS = [
    pytest.param(DISCUSSED_REFERENCES, '  plugin: "load', '   plugin: "load', 9, id="plugin: one too far right"),
    pytest.param(
        DISCUSSED_REFERENCES,
        '  plugin-references:\n  - name: "my-load-filter"\n  - name: "my-prefix-scorer"\n    weight: 20',
        '   plugin-references:\n   - name: "my-load-filter"\n   - name: "my-prefix-scorer"\n     weight: 20',
        13,
        id="plugin-references: one too far right",
    ),
    pytest.param(DISCUSSED_REFERENCES, "    weight: 20", "     weight: 20", 16, id="weight: one too far right"),
    pytest.param(DISCUSSED_REFERENCES, "20\n", "20```\n", 16, id="the fence after 20"),
    pytest.param(DISCUSSED_INLINE, "Profiles:", "Profiles", 1, id="endpointPickingProfiles without a colon"),
    pytest.param(
        DISCUSSED_INLINE,
        "    weight: 2\n    args:\n      LRU",
        "     weight: 2\n     args:\n       LRU",
        5,
        id="weight: and args: one too far right",
    ),
    pytest.param(DISCUSSED_INLINE, "- decode:", "- decode", 9, id="- decode without a colon"),
]


@pytest.mark.parametrize("text", [DISCUSSED_REFERENCES, DISCUSSED_INLINE], ids=["references", "in place"])
def test_what_was_discussed_is_fine_without_its_slips(text: str) -> None:
    assert not errors(text)


@pytest.mark.parametrize(("text", "right", "slip", "line"), SLIPS)
def test_a_slip_of_the_discussion_is_an_error_at_its_line(text: str, right: str, slip: str, line: int) -> None:
    assert text.count(right) == 1
    found = errors(text.replace(right, slip))
    assert [fault.split(":")[0] for fault in found] == [str(line)], found


@pytest.mark.parametrize("slip", [param.values for param in SLIPS if "colon" in str(param.id)], ids=["first", "second"])
def test_a_missing_colon_is_told_as_that(slip: tuple[str, str, str, int]) -> None:
    text, right, wrong, _ = slip
    (found,) = errors(text.replace(right, wrong))
    assert "colon" in found


def test_what_was_posted_with_all_its_slips_is_an_error_at_the_first_of_them() -> None:
    posted = DISCUSSED_INLINE
    for _, right, slip, _ in (param.values for param in SLIPS[4:]):
        posted = posted.replace(str(right), str(slip))
    assert errors(posted)[0].startswith("1:")


# -- one form laid over another


@pytest.mark.parametrize(
    ("base", "overlay", "expected"),
    [
        pytest.param(INLINE, "endpointPickingProfiles: [{prefill: [{name: prefix-cache, weight: 5}]}]", "prefill", id="in place over in place"),
        pytest.param(INLINE, "schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill/prefix-cache, weight: 5}]}]", "prefill", id="the schema over in place"),
        pytest.param(INLINE, "scheduling_profiles: [{name: prefill, plugin-references: [{name: prefill/prefix-cache, weight: 5}]}]", "prefill", id="references over in place"),
        pytest.param(INLINE, "schedulingProfiles: [{name: prefill, scorers: [{name: prefix-cache, weight: 5}]}]", "prefill", id="sections over in place"),
        pytest.param(REFERENCES, "endpointPickingProfiles: [{default: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="in place over references"),
        pytest.param(REFERENCES, "schedulingProfiles: [{name: default, plugins: [{pluginRef: my-prefix-scorer, weight: 5}]}]", "default", id="the schema over references"),
        pytest.param(REFERENCES, "scheduling_profiles: [{name: default, plugin-references: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="references over references"),
        pytest.param(REFERENCES, "schedulingProfiles: [{name: default, scorers: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="sections over references"),
        pytest.param(SECTIONS, "endpointPickingProfiles: [{default: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="in place over sections"),
        pytest.param(SECTIONS, "schedulingProfiles: [{name: default, plugins: [{pluginRef: my-prefix-scorer, weight: 5}]}]", "default", id="the schema over sections"),
        pytest.param(SECTIONS, "scheduling_profiles: [{name: default, plugin-references: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="references over sections"),
        pytest.param(SECTIONS, "schedulingProfiles: [{name: default, scorers: [{name: my-prefix-scorer, weight: 5}]}]", "default", id="sections over sections"),
    ],
)  # fmt: skip
def test_an_overlay_in_any_form_changes_one_weight_and_nothing_else(base: Path, overlay: str, expected: str) -> None:
    before, after = checked(base), checked(base, overlay)
    changed = dict(profiles(before))
    filters, weights, picker = changed[expected]
    name = next(name for name in weights if "prefix" in name)
    changed[expected] = (filters, {**weights, name: 5.0}, picker)
    assert profiles(after) == changed
    assert described(after) == described(before)


PICKERS = [
    pytest.param("endpointPickingProfiles: [{{{0}: [random-picker]}}]", "{0}/random-picker", id="in place"),
    pytest.param("plugins: [{{type: random-picker}}]\nschedulingProfiles: [{{name: {0}, plugins: [{{pluginRef: random-picker}}]}}]", "random-picker", id="the schema"),
    pytest.param(
        "plugin_references: [{{plugin: random-picker}}]\nscheduling_profiles: [{{name: {0}, plugin-references: [{{name: random-picker}}]}}]",
        "random-picker", id="references",
    ),
    pytest.param("schedulingProfiles: [{{name: {0}, picker: random-picker}}]", "{0}/random-picker", id="sections"),
    pytest.param("schedulingProfiles: [{{name: {0}, picker: {{name: mine, type: random-picker}}}}]", "{0}/mine", id="sections, named"),
]  # fmt: skip


@EXAMPLE
@pytest.mark.parametrize(("overlay", "picker"), PICKERS)
def test_an_overlay_in_any_form_replaces_the_picker(example: Path, overlay: str, picker: str) -> None:
    first = checked(example).plan.profiles[0].name
    assert profiles(checked(example, overlay.format(first)))[first][2] == picker.format(first)


def test_an_overlay_replaces_the_picker_of_its_profile_and_of_no_other() -> None:
    found = profiles(checked(INLINE, "schedulingProfiles: [{name: prefill, picker: random-picker}]"))
    assert (found["prefill"][2], found["decode"][2]) == ("prefill/random-picker", "max-score-picker")


@pytest.mark.parametrize(
    "overlay",
    [
        pytest.param("endpointPickingProfiles: [{prefill: [{name: prefix-cache, args: {hashBlockSize: 32}}]}]", id="in place"),
        pytest.param("endpointPickingProfiles: [{name: prefill, plugins: [{type: prefix-cache, args: {hash-block-size: 32}}]}]", id="in place, written out"),
        pytest.param("schedulingProfiles: [{name: prefill, scorers: [{name: prefix-cache, args: {hashBlockSize: 32}}]}]", id="sections"),
        pytest.param("plugins: [{name: prefill/prefix-cache, parameters: {hashBlockSize: 32}}]", id="the schema"),
        pytest.param("plugin_references: [{name: prefill/prefix-cache, parameters: {hash_block_size: 32}}]", id="references"),
    ],
)  # fmt: skip
def test_an_overlay_in_any_form_changes_one_parameter_of_a_plugin_in_place(overlay: str) -> None:
    found = checked(INLINE, overlay)
    assert profiles(found) == profiles(checked(INLINE))
    expected = dict(described(checked(INLINE)))
    expected["prefill/prefix-cache"] = ("prefix-cache", {"lruIndexerCapacity": 5000, "hashBlockSize": 32})
    assert described(found) == expected


@pytest.mark.parametrize(
    "one",
    ["plugins[prefill/prefix-cache].parameters.hashBlockSize=32", "plugins[prefill/prefix-cache].parameters.hash-block-size=32"],
)  # fmt: skip
def test_a_single_value_reaches_a_plugin_in_place(one: str) -> None:
    assert described(checked(INLINE, sets=[one]))["prefill/prefix-cache"][1]["hashBlockSize"] == 32


@pytest.mark.parametrize(
    "overlay",
    [
        pytest.param("endpointPickingProfiles: [{prefill: [{name: mine, weight: 5}]}]", id="in place"),
        pytest.param("schedulingProfiles: [{name: prefill, scorers: [{name: mine, weight: 5}]}]", id="sections"),
        pytest.param("schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill/mine, weight: 5}]}]", id="the schema"),
    ],
)  # fmt: skip
def test_an_overlay_reaches_a_plugin_in_place_that_has_a_name_of_its_own(tmp_path: Path, overlay: str) -> None:
    base = file(tmp_path, "endpointPickingProfiles: [{prefill: [{name: mine, type: prefix-cache, args: {hashBlockSize: 9}}]}]")  # fmt: skip
    found = checked(base, overlay)
    assert described(found) == {"prefill/mine": ("prefix-cache", {"hashBlockSize": 9})}
    assert profiles(found) == {"prefill": ([], {"prefill/mine": 5.0}, "max-score-picker")}


@pytest.mark.parametrize("entry", ["{name: mine, args: {hashBlockSize: 3}}", "{name: mine, enabled: false}"])
def test_an_overlay_in_place_changes_or_switches_off_what_has_a_name_of_its_own(tmp_path: Path, entry: str) -> None:
    base = file(tmp_path, "endpointPickingProfiles: [{a: [{name: mine, type: prefix-cache, args: {hashBlockSize: 9}}]}]")  # fmt: skip
    found = checked(base, f"endpointPickingProfiles: [{{a: [{entry}]}}]")
    assert described(found) == ({} if "false" in entry else {"a/mine": ("prefix-cache", {"hashBlockSize": 3})})


@pytest.mark.parametrize(
    "overlay",
    [
        pytest.param("endpointPickingProfiles: [{prefill: [{name: prefix-cache, enabled: false}]}]", id="in place"),
        pytest.param("schedulingProfiles: [{name: prefill, scorers: [{name: prefix-cache, enabled: false}]}]", id="sections"),
        pytest.param("schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill/prefix-cache, enabled: false}]}]", id="the schema"),
        pytest.param("scheduling_profiles: [{name: prefill, plugin-references: [{name: prefill/prefix-cache, enabled: false}]}]", id="references"),
        pytest.param("plugins: [{name: prefill/prefix-cache, enabled: false}]", id="the plugin itself"),
        pytest.param("plugin_references: [{name: prefill/prefix-cache, enabled: false}]", id="the plugin itself by references"),
    ],
)  # fmt: skip
def test_an_overlay_in_any_form_switches_off_what_a_profile_has_in_place(overlay: str) -> None:
    filters, weights, _ = profiles(checked(INLINE, overlay))["prefill"]
    assert (filters, weights) == (["prefill/prefill-endpoints"], {"prefill/server-queue-length": 1.0})


@pytest.mark.parametrize(
    ("overlay", "name"),
    [
        pytest.param("endpointPickingProfiles: [{decode: [{name: queue-scorer, before: kv-cache-util}]}]", "decode/queue-scorer", id="in place"),
        pytest.param(
            "plugins: [{type: queue-scorer}]\n"
            "schedulingProfiles: [{name: decode, plugins: [{pluginRef: queue-scorer, before: decode/kv-cache-util}]}]",
            "queue-scorer", id="the schema",
        ),
        pytest.param(
            "plugin_references: [{plugin: queue-scorer}]\n"
            "scheduling_profiles: [{name: decode, plugin-references: [{name: queue-scorer, before: decode/kv-cache-util}]}]",
            "queue-scorer", id="references",
        ),
        pytest.param("schedulingProfiles: [{name: decode, scorers: [{name: queue-scorer, before: kv-cache-util}]}]", "decode/queue-scorer", id="sections"),
    ],
)  # fmt: skip
def test_an_overlay_in_any_form_adds_a_scorer_before_another(overlay: str, name: str) -> None:
    assert list(profiles(checked(INLINE, overlay))["decode"][1]) == [name, "decode/kv-cache-util"]


@EXAMPLE
def test_an_overlay_in_place_over_the_shipped_default_shares_what_is_declared_there(example: Path) -> None:
    overlay = "endpointPickingProfiles: [{default: [expected-ttft-scorer]}]"
    found = check(Sources(("builtin:default", str(example)), overlay))
    assert "default/expected-ttft-scorer" not in found.plan.plugins
    assert profiles(found)["default"][1]["expected-ttft-scorer"] == 1.0


# -- served


@asynccontextmanager
async def serving(example: Path, endpoints: Mapping[str, tuple[int, str]]) -> AsyncIterator[Running]:
    """The application of the example and of endpoints by name, each a port and a role."""
    items = ", ".join(
        f"{{name: {name}, address: 127.0.0.1, port: {port}, labels: {{llm-d.ai/role: {role}}}}}"
        for name, (port, role) in endpoints.items()
    )
    application = Application(checked(example, f"{FREE_PORTS}\npool: {{endpoints: [{items}]}}\n"))
    async with running.serving(application) as app:
        yield app


@pytest.mark.parametrize("example", [REFERENCES, SECTIONS], ids=lambda path: path.stem)
async def test_a_request_is_served_with_an_example(example: Path) -> None:
    async with fake_engine(says("here")) as engine, serving(example, {"a": (engine.port, "both")}) as app:
        async with app.chat() as answer:
            assert (answer.status, await answer.text()) == (200, "here")
        assert [seen.path for seen in engine.seen] == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"EPP-Profile": "prefill"}, "prefilled", id="prefill"),
        pytest.param({"EPP-Profile": "decode"}, "decoded", id="decode"),
        pytest.param({}, "prefilled", id="the first profile without a header"),
    ],
)
async def test_the_header_chooses_which_workers_serve_the_example_with_two_profiles(
    headers: Mapping[str, str], expected: str
) -> None:
    async with fake_engine(says("prefilled")) as one, fake_engine(says("decoded")) as other:
        async with serving(INLINE, {"p": (one.port, "prefill"), "d": (other.port, "decode")}) as app:
            body = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
            async with app.client.post(f"{app.url}/v1/chat/completions", json=body, headers=headers) as answer:
                assert (answer.status, await answer.text()) == (200, expected)
