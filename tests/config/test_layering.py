"""Which layer is stronger, at every depth; and what an overlay can add, change, switch off and replace."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.__main__ import main
from app.checking import Checked
from app.settings.errors import ConfigurationError, UsageError
from app.settings.layers import Sources
from app.settings.schema import API_VERSIONS
from containers.application import catalogue, check

CATALOGUE = catalogue()

BASE = """\
plugins:
  - {name: first, type: queue-scorer}
  - {name: second, type: kv-cache-utilization-scorer}
  - {name: prefix, type: prefix-cache, parameters: {hashBlockSize: 16, lruIndexerCapacity: 500}}
  - {type: decode-filter}
  - {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: decode-filter}
      - {pluginRef: first, weight: 1}
      - {pluginRef: second, weight: 2}
      - {pluginRef: prefix, weight: 3}
      - {pluginRef: max-score-picker}
  - {name: spare, enabled: false}
"""


def laid(folder: Path, *layers: str, environment: Mapping[str, str] | None = None, sets: Sequence[str] = ()) -> Checked:
    """The layers, which must have no errors: files in this order."""
    return check(Sources(files(folder, *layers), environment=environment or {}, sets=sets), CATALOGUE)


def files(folder: Path, *layers: str) -> list[str]:
    """Files that hold the layers, named `0.yaml` and so on."""
    paths = [folder / f"{number}.yaml" for number in range(len(layers))]
    for path, text in zip(paths, layers, strict=True):
        path.write_text(text, encoding="utf-8")
    return [str(path) for path in paths]


def errors(folder: Path, *layers: str) -> list[str]:
    """The errors, each with the number of its layer in place of the file."""
    with pytest.raises(ConfigurationError) as caught:
        laid(folder, *layers)
    return [str(f).replace(f"{folder}/", "").replace(".yaml:", ":") for f in caught.value.faults if f.severity == "error"]  # fmt: skip


def default(found: Checked) -> tuple[list[str], dict[str, float], str]:
    """Filters, scorers with their weights, and picker of the first profile."""
    profile = found.plan.profiles[0]
    return list(profile.filters), dict(profile.scorers), profile.picker


def parameters(found: Checked, plugin: str) -> Any:
    return json.loads(found.plan.plugins[plugin].parameters)


# -- precedence


@dataclass(frozen=True)
class Depth:
    """A value somewhere in a configuration, and how each kind of layer sets it."""

    yaml: str
    values: Sequence[object]
    """The model's default, then one for each layer, weakest first."""
    found: Callable[[Checked], object]
    path: str
    """For `--set`."""
    variable: str = ""
    """In the environment; empty where it can't be reached."""
    rest: str = ""
    """What must stand in some layer below, so that the value has a place."""


PLUGINS = "plugins: [{name: p, type: prefix-cache}]\nschedulingProfiles: [{name: d, plugins: [{pluginRef: p}]}]\n"
DEPTHS = [
    pytest.param(
        Depth(
            "shutdown: {{timeout: {}}}",
            ["30s", "1s", "2s", "3s", "4s", "5s", "6s"],
            lambda found: f"{found.configuration.settings.shutdown.timeout:g}s",
            "shutdown.timeout",
            "SHUTDOWN__TIMEOUT",
        ),
        id="in a section",
    ),
    pytest.param(
        Depth(
            "transports: {{http: {{limits: {{inFlight: {}}}}}}}",
            [0, 1, 2, 3, 4, 5, 6],
            lambda found: found.configuration.settings.transports.http.limits.in_flight,
            "transports.http.limits.inFlight",
            "TRANSPORTS__HTTP__LIMITS__IN_FLIGHT",
        ),
        id="in a nested section",
    ),
    pytest.param(
        Depth(
            "plugins: [{{name: p, parameters: {{hashBlockSize: {}}}}}]",
            [64, 1, 2, 3, 4, 5, 6],
            lambda found: found.plan.plugins["p"].params.hash_block_size,
            "plugins[p].parameters.hash-block-size",
            rest=PLUGINS,
        ),
        id="a parameter of a plugin",
    ),
    pytest.param(
        Depth(
            "schedulingProfiles: [{{name: d, plugins: [{{pluginRef: p, weight: {}}}]}}]",
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
            lambda found: default(found)[1]["p"],
            "schedulingProfiles[d].plugins[p].weight",
            rest=PLUGINS,
        ),
        id="the weight of a profile's entry",
    ),
    pytest.param(
        Depth(
            "simulation: {{adapters: {}}}",
            [[], ["a"], ["b", "c"], ["d"], ["e"], ["f"], []],
            lambda found: list(found.configuration.settings.simulation.adapters),
            "simulation.adapters",
        ),
        id="a list that is replaced",
    ),
    pytest.param(
        Depth(
            "pool: {{endpoints: [{{name: e, port: {}}}]}}",
            [9, 1, 2, 3, 4, 5, 6],
            lambda found: found.configuration.settings.pool.endpoints[0].port,
            "pool.endpoints[e].port",
            rest="pool: {endpoints: [{name: e, address: 127.0.0.1, port: 9}]}",
        ),
        id="an endpoint's port",
    ),
    pytest.param(
        Depth(
            "pool: {{endpoints: [{{name: e, labels: {{zone: {}}}}}]}}",
            ["none", "a", "b", "c", "d", "e", "f"],
            lambda found: found.configuration.settings.pool.endpoints[0].labels["zone"],
            "pool.endpoints[e].labels.zone",
            rest="pool: {endpoints: [{name: e, address: 127.0.0.1, port: 9, labels: {zone: none}}]}",
        ),
        id="an endpoint's label",
    ),
]
KINDS = ["the default", "a file", "a later file", "the text", "the environment", "a single value", "a later single value"]  # fmt: skip
DEFAULT, FILE, LATER_FILE, TEXT, ENVIRONMENT, SET, LATER_SET = range(7)


def sources(depth: Depth, kinds: Sequence[int], folder: Path) -> Sources:
    """The sources in which the layers of these kinds set the value."""

    def text(kind: int) -> str:
        return depth.yaml.format(json.dumps(depth.values[kind])) if kind in kinds else ""

    single = [f"{depth.path}={json.dumps(depth.values[kind])}" for kind in (SET, LATER_SET) if kind in kinds]
    environment = {f"POINTSMAN_{depth.variable}": str(depth.values[ENVIRONMENT])} if ENVIRONMENT in kinds else {}
    return Sources(files(folder, depth.rest, text(FILE), text(LATER_FILE)), text(TEXT), environment, single)


TOP = Depth("apiVersion: {}", [], lambda found: found.configuration.settings.api_version, "apiVersion")
"""A scalar at the top, of which there are two values only."""


def pairs(depth: Depth) -> list[tuple[int, int]]:
    """The kinds of layers that can set the value, two by two."""
    kinds = [kind for kind in range(7) if kind != ENVIRONMENT or depth.variable]
    return list(itertools.combinations(kinds, 2))


PAIRS = [
    pytest.param(param.values[0], *pair, id=f"{param.id}: {KINDS[pair[1]]} over {KINDS[pair[0]]}")
    for param in DEPTHS
    for pair in pairs(param.values[0])  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("depth", "weaker", "stronger"), PAIRS)
def test_of_two_layers_the_later_kind_is_stronger(depth: Depth, weaker: int, stronger: int, tmp_path: Path) -> None:
    found = check(sources(depth, [weaker, stronger], tmp_path), CATALOGUE)
    assert depth.found(found) == depth.values[stronger]


@pytest.mark.parametrize(("weaker", "stronger"), pairs(TOP))
def test_of_two_layers_the_later_kind_is_stronger_at_the_top(weaker: int, stronger: int, tmp_path: Path) -> None:
    depth = replace(TOP, values=[API_VERSIONS[kind != weaker] for kind in range(7)])
    assert TOP.found(check(sources(depth, [weaker, stronger], tmp_path), CATALOGUE)) == API_VERSIONS[1]


@pytest.mark.parametrize("depth", DEPTHS)
def test_of_all_layers_the_last_single_value_is_the_strongest(depth: Depth, tmp_path: Path) -> None:
    kinds = [kind for kind in range(7) if kind != ENVIRONMENT or depth.variable]
    assert depth.found(check(sources(depth, kinds, tmp_path), CATALOGUE)) == depth.values[LATER_SET]


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_no_layer_sets_is_as_the_model_has_it(depth: Depth, tmp_path: Path) -> None:
    assert depth.found(check(sources(depth, [], tmp_path), CATALOGUE)) == depth.values[DEFAULT]


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_weaker_layer_that_sets_something_else_is_not_lost(depth: Depth, tmp_path: Path) -> None:
    found = check(
        Sources(files(tmp_path, "routing: {producerDeadline: 7s}", depth.rest), depth.yaml.format(json.dumps(depth.values[TEXT]))),
        CATALOGUE,
    )  # fmt: skip
    assert (depth.found(found), found.configuration.settings.routing.producer_deadline) == (depth.values[TEXT], 7.0)


def test_the_order_of_files_is_that_of_the_command_line(tmp_path: Path) -> None:
    one, other = files(tmp_path, "simulation: {seed: 1}", "simulation: {seed: 2}")
    seeds = [check(Sources(order), CATALOGUE).configuration.settings.simulation.seed for order in ([one, other], [other, one])]  # fmt: skip
    assert seeds == [2, 1]


def test_a_shipped_file_may_lie_over_ones_own(tmp_path: Path) -> None:
    (own,) = files(tmp_path, "observability: {logging: {format: json, level: debug}}")
    logging = check(Sources([own, "builtin:dev"]), CATALOGUE).configuration.settings.observability.logging
    assert (logging.format, logging.level) == ("console", "info")


# -- lists: replaced, and replaced together


def test_a_parameter_that_is_a_list_is_replaced_as_a_whole(tmp_path: Path) -> None:
    base = "plugins: [{type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: Exists}, {key: b, operator: Exists}]}}]"
    overlay = "plugins: [{type: label-selector-filter, parameters: {match-expressions: [{key: c, operator: Exists}]}}]"
    found = parameters(laid(tmp_path, base, overlay), "label-selector-filter")
    assert found == {"matchExpressions": [{"key": "c", "operator": "Exists"}]}


def test_a_parameter_that_is_a_mapping_is_merged(tmp_path: Path) -> None:
    base = "plugins: [{type: label-selector-filter, parameters: {matchLabels: {a: x, b: y}}}]"
    overlay = "plugins: [{type: label-selector-filter, parameters: {matchLabels: {b: z}}}]"
    assert parameters(laid(tmp_path, base, overlay), "label-selector-filter") == {"matchLabels": {"a": "x", "b": "z"}}


def test_networks_and_gates_are_replaced_and_never_added_up(tmp_path: Path) -> None:
    base = "transports: {admin: {allowFrom: [10.0.0.0/8]}}\nfeatureGates: [haPopulateNonLeaderDatastore]"
    overlay = "transports: {admin: {allowFrom: ['::1']}}\nfeatureGates: []"
    settings = laid(tmp_path, base, overlay).configuration.settings
    assert (settings.transports.admin.allow_from, settings.feature_gates) == (("::1",), ())


def test_an_empty_named_list_takes_nothing_away(tmp_path: Path) -> None:
    overlay = "plugins: []\nschedulingProfiles: [{name: default, plugins: []}]"
    assert default(laid(tmp_path, BASE, overlay)) == default(laid(tmp_path, BASE))


# -- switching off, and on again

WITHOUT_FIRST = (["decode-filter"], {"second": 2.0, "prefix": 3.0}, "max-score-picker")
WHOLE = (["decode-filter"], {"first": 1.0, "second": 2.0, "prefix": 3.0}, "max-score-picker")
OFF = [
    pytest.param("plugins: [{name: first, enabled: false}]", id="the plugin"),
    pytest.param("schedulingProfiles: [{name: default, plugins: [{pluginRef: first, enabled: false}]}]", id="the entry"),
]  # fmt: skip


@pytest.mark.parametrize("overlay", OFF)
def test_an_overlay_switches_off_a_plugin_or_its_entry(tmp_path: Path, overlay: str) -> None:
    found = laid(tmp_path, BASE, overlay)
    assert default(found) == WITHOUT_FIRST
    assert not found.configuration.faults.warnings


@pytest.mark.parametrize("overlay", OFF)
def test_a_still_later_layer_switches_it_on_again_in_its_place(tmp_path: Path, overlay: str) -> None:
    again = laid(tmp_path, BASE, overlay, overlay.replace("false", "true"))
    assert default(again) == WHOLE
    assert list(default(again)[1]) == ["first", "second", "prefix"]


@pytest.mark.parametrize(
    "one",
    ["plugins[first].enabled=false", "schedulingProfiles[default].plugins[first].enabled=false"],
)
def test_a_single_value_switches_off(tmp_path: Path, one: str) -> None:
    assert default(laid(tmp_path, BASE, sets=[one])) == WITHOUT_FIRST


@pytest.mark.parametrize("value", ["false", "False", "FALSE"])
def test_false_is_written_as_in_yaml(tmp_path: Path, value: str) -> None:
    assert default(laid(tmp_path, BASE, f"plugins: [{{name: first, enabled: {value}}}]")) == WITHOUT_FIRST


@pytest.mark.parametrize("value", ["no", "off", "0", "'false'", "null"])
def test_what_is_not_false_does_not_switch_off_in_silence(tmp_path: Path, value: str) -> None:
    (found,) = errors(tmp_path, BASE, f"plugins: [{{name: first, enabled: {value}}}]")
    assert found.startswith("1:1:25: plugins[0].enabled: expected true or false, found ")


def test_an_overlay_switches_a_profile_off_and_another_on(tmp_path: Path) -> None:
    overlay = "schedulingProfiles: [{name: default, enabled: false}, {name: spare, enabled: true}]"
    assert [profile.name for profile in laid(tmp_path, BASE, overlay).plan.profiles] == ["spare"]


def test_an_overlay_switches_an_endpoint_off(tmp_path: Path) -> None:
    base = "pool: {endpoints: [{name: a, address: 127.0.0.1, port: 1}, {name: b, address: 127.0.0.1, port: 2}]}"
    found = laid(tmp_path, base, "pool: {endpoints: [{name: a, enabled: false}]}").configuration.settings.pool
    assert [(e.name, e.enabled, e.port) for e in found.endpoints] == [("a", False, 1), ("b", True, 2)]


def test_a_misspelt_name_that_is_to_be_switched_off_is_an_error(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, BASE, "plugins: [{name: frist, enabled: false}]")
    assert found.startswith("1:1:11: plugins[0]: ")


def test_a_plugin_of_the_default_is_switched_off_by_its_type() -> None:
    overlay = "plugins: [{type: expected-ttft-scorer, enabled: false}, {type: token-load-producer, enabled: false}]"
    found = check(Sources(["builtin:default"], overlay), CATALOGUE)
    assert default(found) == ([], {}, "max-score-picker")
    assert "token-load-producer" not in found.plan.plugins


# -- adding, in a place

ADDED = "plugins: [{{name: new, type: load-aware-scorer}}]\nschedulingProfiles: [{{name: default, plugins: [{{pluginRef: new{}}}]}}]"


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("", ["first", "second", "prefix", "new"], id="last"),
        pytest.param(", before: first", ["new", "first", "second", "prefix"], id="before the first scorer"),
        pytest.param(", before: decode-filter", ["new", "first", "second", "prefix"], id="before all"),
        pytest.param(", after: first", ["first", "new", "second", "prefix"], id="after the first"),
        pytest.param(", before: prefix", ["first", "second", "new", "prefix"], id="before the last"),
        pytest.param(", after: max-score-picker", ["first", "second", "prefix", "new"], id="after all"),
    ],
)
def test_an_overlay_adds_a_scorer_where_it_says(tmp_path: Path, order: str, expected: Sequence[str]) -> None:
    filters, weights, picker = default(laid(tmp_path, BASE, ADDED.format(order)))
    assert (filters, list(weights), picker) == (["decode-filter"], expected, "max-score-picker")
    assert weights["new"] == 1.0


def test_two_new_scorers_stand_in_the_order_in_which_they_are_written(tmp_path: Path) -> None:
    overlay = """
plugins: [{name: x, type: load-aware-scorer}, {name: y, type: load-aware-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: x, before: second}, {pluginRef: y, before: second}]}]
"""
    assert list(default(laid(tmp_path, BASE, overlay))[1]) == ["first", "x", "y", "second", "prefix"]


def test_a_new_scorer_may_stand_beside_one_of_the_same_layer(tmp_path: Path) -> None:
    overlay = """
plugins: [{name: x, type: load-aware-scorer}, {name: y, type: load-aware-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: x, before: first}, {pluginRef: y, before: x}]}]
"""
    assert list(default(laid(tmp_path, BASE, overlay))[1]) == ["y", "x", "first", "second", "prefix"]


def test_an_entry_that_is_there_moves_and_keeps_its_weight(tmp_path: Path) -> None:
    overlay = "schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix, before: first}]}]"
    assert list(default(laid(tmp_path, BASE, overlay))[1].items()) == [("prefix", 3.0), ("first", 1.0), ("second", 2.0)]


def test_filters_are_put_in_order_too(tmp_path: Path) -> None:
    overlay = """
plugins: [{type: load-aware-filter}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: load-aware-filter, before: decode-filter}]}]
"""
    assert default(laid(tmp_path, BASE, overlay))[0] == ["load-aware-filter", "decode-filter"]


def test_a_place_beside_what_is_not_there_is_an_error_that_lists_what_is(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, BASE, ADDED.format(", before: frist"))
    assert found.startswith("1:2:65: schedulingProfiles[0].plugins[0].before: no item in this list has the name given")
    assert found.endswith("names: decode-filter, first, second, prefix, max-score-picker")


def test_before_and_after_together_are_an_error(tmp_path: Path) -> None:
    (found,) = errors(tmp_path, BASE, ADDED.format(", before: first, after: first"))
    assert found.startswith("1:2:")


def test_a_profile_that_an_overlay_adds_comes_last_and_the_header_chooses(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "schedulingProfiles: [{name: more, plugins: [{pluginRef: second}]}]")
    assert [profile.name for profile in found.plan.profiles] == ["default", "more"]
    assert found.plan.profile_picker == "header-profile-handler"


# -- changing one thing


def test_an_overlay_changes_one_weight_and_nothing_else(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "schedulingProfiles: [{name: default, plugins: [{pluginRef: second, weight: 9}]}]")
    assert default(found) == (WHOLE[0], {**WHOLE[1], "second": 9.0}, WHOLE[2])


def test_an_overlay_changes_one_parameter_and_nothing_else(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "plugins: [{name: prefix, parameters: {hash-block-size: 99}}]")
    assert parameters(found, "prefix") == {"hashBlockSize": 99, "lruIndexerCapacity": 500}
    assert default(found) == WHOLE


def test_another_name_of_a_parameter_is_the_same_parameter(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "plugins: [{name: prefix, parameters: {LRUIndexerSize: 7}}]")
    assert parameters(found, "prefix") == {"hashBlockSize": 16, "lruIndexerCapacity": 7}


def test_parameters_laid_over_by_nothing_stay(tmp_path: Path) -> None:
    assert parameters(laid(tmp_path, BASE, "plugins: [{name: prefix, parameters: }]"), "prefix")["hashBlockSize"] == 16


def test_a_plugin_of_another_type_does_not_inherit_parameters(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "plugins: [{name: prefix, type: load-aware-scorer}]")
    assert (found.plan.plugins["prefix"].type_name, parameters(found, "prefix")) == ("load-aware-scorer", {})
    assert default(found) == WHOLE


def test_the_same_type_written_again_keeps_the_parameters(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, "plugins: [{name: prefix, type: prefix-cache, parameters: {hashBlockSize: 1}}]")
    assert parameters(found, "prefix") == {"hashBlockSize": 1, "lruIndexerCapacity": 500}


def test_an_error_in_a_value_of_the_base_that_is_replaced_is_no_error(tmp_path: Path) -> None:
    base = BASE.replace("hashBlockSize: 16", "hashBlockSize: many")
    assert parameters(laid(tmp_path, base, "plugins: [{name: prefix, parameters: {hashBlockSize: 3}}]"), "prefix")[
        "hashBlockSize"
    ] == 3  # fmt: skip


def test_an_error_that_an_overlay_brings_is_told_in_the_overlay(tmp_path: Path) -> None:
    found = errors(
        tmp_path, BASE, "plugins:\n  - {name: prefix, parameters: {hashBlockSize: many, LRUIndexerSiez: 1}}\n"
    )
    assert [fault.partition(" ")[0] for fault in found] == ["1:2:33:", "1:2:54:"]


def test_an_error_of_the_base_that_an_overlay_does_not_touch_is_told_in_the_base(tmp_path: Path) -> None:
    base = BASE.replace("hashBlockSize: 16", "hashBlockSize: many")
    (found,) = errors(tmp_path, base, "plugins: [{name: prefix, parameters: {LRUIndexerSize: 3}}]")
    assert found.startswith("0:4:53: ")


# -- the picker


@pytest.mark.parametrize(
    "overlay",
    [
        pytest.param("plugins: [{{type: {0}}}]\nschedulingProfiles: [{{name: default, plugins: [{{pluginRef: {0}}}]}}]", id="listed"),
        pytest.param("schedulingProfiles: [{{name: default, picker: {0}}}]", id="in a section"),
        pytest.param("endpointPickingProfiles: [{{default: [{0}]}}]", id="in place"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("picker", ["random-picker", "weighted-random-picker"])
def test_an_overlay_that_names_another_picker_replaces_it(tmp_path: Path, overlay: str, picker: str) -> None:
    found = laid(tmp_path, BASE, overlay.format(picker))
    assert default(found)[:2] == WHOLE[:2]
    assert default(found)[2] in {picker, f"default/{picker}"}
    assert any(f"uses the picker {default(found)[2]} instead of max-score-picker" in note for note in found.plan.notes)


def test_of_three_layers_with_a_picker_the_last_one_counts(tmp_path: Path) -> None:
    overlays = [
        f"plugins: [{{type: {name}}}]\nschedulingProfiles: [{{name: default, plugins: [{{pluginRef: {name}}}]}}]"
        for name in ("random-picker", "weighted-random-picker")
    ]
    assert default(laid(tmp_path, BASE, *overlays))[2] == "weighted-random-picker"
    assert default(laid(tmp_path, BASE, *reversed(overlays)))[2] == "random-picker"


def test_two_pickers_in_one_layer_are_an_error(tmp_path: Path) -> None:
    overlay = (
        "plugins: [{type: random-picker}, {type: weighted-random-picker}]\n"
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}, {pluginRef: weighted-random-picker}]}]"
    )
    (found,) = errors(tmp_path, BASE, overlay)
    assert found.endswith("has several pickers: 'random-picker' and 'weighted-random-picker'; keep one")


def test_a_layer_that_names_a_picker_again_picks_it_back(tmp_path: Path) -> None:
    one = (
        "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]"
    )
    other = "schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}]}]"
    assert default(laid(tmp_path, BASE, one, other))[2] == "max-score-picker"


def test_the_picker_of_a_text_is_stronger_than_that_of_a_file(tmp_path: Path) -> None:
    (base,) = files(tmp_path, BASE)
    found = check(Sources([base], "schedulingProfiles: [{name: default, picker: random-picker}]"), CATALOGUE)
    assert default(found)[2] == "default/random-picker"


def test_a_single_value_replaces_the_picker(tmp_path: Path) -> None:
    found = laid(tmp_path, BASE, sets=["schedulingProfiles[default].picker=random-picker"])
    assert default(found)[2] == "default/random-picker"


def test_a_picker_that_is_switched_off_leaves_the_other_one(tmp_path: Path) -> None:
    overlay = (
        "plugins: [{type: max-score-picker, enabled: false}, {type: random-picker}]\n"
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]"
    )
    assert default(laid(tmp_path, BASE, overlay))[2] == "random-picker"


def test_changing_a_pickers_parameters_does_not_choose_it(tmp_path: Path) -> None:
    one = (
        "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]"
    )
    other = "plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 5}}]"
    assert default(laid(tmp_path, BASE, one, other))[2] == "random-picker"


# -- discovery, parsers and sources are layered like the rest


def test_an_overlay_adds_a_parser_before_the_last_one() -> None:
    overlay = "requestHandler: {parsers: [{pluginRef: sglanghttp-parser, before: passthrough-parser}]}"
    parsers = list(check(Sources(["builtin:default"], overlay), CATALOGUE).plan.parsers)
    assert parsers == ["openai-parser", "anthropic-parser", "vllmhttp-parser", "sglanghttp-parser", "passthrough-parser"]  # fmt: skip


def test_an_overlay_replaces_the_discovery(tmp_path: Path) -> None:
    listed = tmp_path / "endpoints.yaml"
    listed.write_text("endpoints: []", encoding="utf-8")
    base = (
        f"plugins: [{{name: one, type: file-discovery, parameters: {{path: {listed}}}}}]\n"
        "dataLayer: {discovery: {pluginRef: one}}"
    )
    overlay = base.replace("one", "other")
    assert laid(tmp_path, base, overlay).plan.discovery == "other"


# -- what is not there


@pytest.mark.parametrize("command", ["check", "show", "serve"])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-c", "nowhere.yaml"], id="a file"),
        pytest.param(["-c", "builtin:default", "-c", "nowhere.yaml"], id="a later file"),
        pytest.param(["-c", "nowhere.yaml", "--config-text", "{}"], id="a file below a text"),
        pytest.param(["-c", "builtin:nowhere"], id="a shipped one"),
        pytest.param(["-c", "builtin:"], id="a shipped one without a name"),
        pytest.param(["-c", "."], id="a folder"),
        pytest.param(["-c", ""], id="an empty name"),
        pytest.param(["--set", "pool.scrape.interval"], id="no value"),
        pytest.param(["--set", "=1"], id="no path"),
    ],
)
def test_what_is_not_there_is_wrong_usage_and_nothing_runs(
    command: str, arguments: Sequence[str], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([command, *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("pointsman: ")


def test_a_file_that_is_not_there_is_named_although_others_are_bad(tmp_path: Path) -> None:
    (bad,) = files(tmp_path, "plugins: [")
    with pytest.raises(UsageError, match=r"nowhere\.yaml: No such file or directory"):
        check(Sources([bad, "nowhere.yaml"]), CATALOGUE)
