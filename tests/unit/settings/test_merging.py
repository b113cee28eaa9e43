"""Merging of layers: each rule, at each depth."""

from __future__ import annotations

from typing import Any

import pytest

from .given import layered, merge_faults, merged

PROFILE = "schedulingProfiles: [{{name: p, plugins: [{}]}}]"
ABC = PROFILE.format("{pluginRef: a, weight: 1}, {pluginRef: b, weight: 2}, {pluginRef: c}")


def entries(*layers: str) -> list[str]:
    """The names in the first profile, in order."""
    return [entry["pluginRef"] for entry in merged(*layers)["schedulingProfiles"][0]["plugins"]]


def named(tree: Any, key: str = "name") -> list[Any]:
    """The names in a list."""
    return [item.get(key) for item in tree]


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        pytest.param("kind: a", "apiVersion: b", {"kind": "a", "apiVersion": "b"}, id="at the top"),
        pytest.param(
            "pool: {scrape: {}}", "pool: {models: {}}", {"pool": {"scrape": {}, "models": {}}}, id="in a section"
        ),
        pytest.param(
            "pool: {scrape: {interval: 1s}}", "pool: {scrape: {timeout: 2s}}",
            {"pool": {"scrape": {"interval": "1s", "timeout": "2s"}}}, id="two sections down",
        ),
        pytest.param(
            "pool: {endpoints: [{name: a, labels: {x: 1}}]}", "pool: {endpoints: [{name: a, labels: {y: 2}}]}",
            {"pool": {"endpoints": [{"name": "a", "labels": {"x": 1, "y": 2}}]}}, id="in a list's item",
        ),
        pytest.param(
            "plugins: [{type: sized, parameters: {nested: {topK: 1}}}]",
            "plugins: [{type: sized, parameters: {nested: {matchLabels: {a: b}}}}]",
            {"plugins": [{"type": "sized", "parameters": {"nested": {"topK": 1, "matchLabels": {"a": "b"}}}}]},
            id="in parameters",
        ),
    ],
)  # fmt: skip
def test_mappings_are_merged_key_by_key(base: str, over: str, result: object) -> None:
    assert merged(base, over) == result


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        pytest.param("kind: a", "kind: b", {"kind": "b"}, id="at the top"),
        pytest.param("shutdown: {delay: 1s}", "shutdown: {delay: 2s}", {"shutdown": {"delay": "2s"}}, id="below"),
        pytest.param(
            "pool: {scrape: {interval: 1s}}", "pool: {scrape: {interval: 2s}}",
            {"pool": {"scrape": {"interval": "2s"}}}, id="two below",
        ),
        pytest.param(
            "pool: {endpoints: [{name: a, port: 1}]}", "pool: {endpoints: [{name: a, port: 2}]}",
            {"pool": {"endpoints": [{"name": "a", "port": 2}]}}, id="in an item",
        ),
        pytest.param("kind: a", "kind: null", {"kind": None}, id="by null"),
        pytest.param("pool: x", "pool: {scrape: {}}", {"pool": {"scrape": {}}}, id="by a mapping"),
        pytest.param("pool: {scrape: {}}", "pool: x", {"pool": "x"}, id="a mapping by text"),
        pytest.param("plugins: x", "plugins: [{type: a}]", {"plugins": [{"type": "a"}]}, id="by a list"),
        pytest.param("plugins: [{type: a}]", "plugins: x", {"plugins": "x"}, id="a list by text"),
    ],
)  # fmt: skip
def test_scalars_are_replaced(base: str, over: str, result: object) -> None:
    assert merged(base, over) == result


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        pytest.param("featureGates: [a, b]", "featureGates: [c]", {"featureGates": ["c"]}, id="at the top"),
        pytest.param("featureGates: [a, b]", "featureGates: []", {"featureGates": []}, id="by an empty one"),
        pytest.param(
            "transports: {admin: {allowFrom: [a, b]}}", "transports: {admin: {allowFrom: [c]}}",
            {"transports": {"admin": {"allowFrom": ["c"]}}}, id="two sections down",
        ),
        pytest.param(
            "plugins: [{type: sized, parameters: {tags: [a, b]}}]", "plugins: [{type: sized, parameters: {tags: [c]}}]",
            {"plugins": [{"type": "sized", "parameters": {"tags": ["c"]}}]}, id="in parameters",
        ),
    ],
)  # fmt: skip
def test_lists_of_scalars_are_replaced(base: str, over: str, result: object) -> None:
    assert merged(base, over) == result


@pytest.mark.parametrize(
    ("text", "over"),
    [
        pytest.param("pool: {scrape: {interval: 1s}}", "pool: null", id="at the top"),
        pytest.param("pool: {scrape: {interval: 1s}}", "pool: {scrape: null}", id="below"),
        pytest.param("pool: {endpoints: [{name: a, labels: {x: y}}]}", "pool: {endpoints: [{name: a, labels: }]}", id="in an item"),
        pytest.param("plugins: [{type: sized, parameters: {capacity: 2}}]", "plugins: [{type: sized, parameters: }]", id="parameters"),
        pytest.param("flowControl: {maxBytes: 1}", "flowControl: ~", id="a section that is optional"),
        pytest.param("plugins: [{type: sized}]", "plugins: null", id="a list"),
    ],
)  # fmt: skip
def test_null_over_a_mapping_or_a_named_list_keeps_it(text: str, over: str) -> None:
    assert merged(text, over) == merged(text)


@pytest.mark.parametrize(
    ("base", "over", "path", "names"),
    [
        pytest.param("plugins: [{name: a, type: t}]", "plugins: [{name: a, enabled: false}]", "plugins", ["a"], id="plugins by name"),
        pytest.param("plugins: [{type: a}]", "plugins: [{type: a, enabled: false}]", "plugins", [None], id="plugins by type"),
        pytest.param("plugins: [{type: a}]", "plugins: [{name: a, enabled: false}]", "plugins", ["a"], id="a type by name"),
        pytest.param(
            "plugins: [{name: b, type: a}]", "plugins: [{type: a, enabled: false}]", "plugins", ["b", None],
            id="a named plugin not by its type",
        ),
        pytest.param(
            "schedulingProfiles: [{name: a}, {name: b}]", "schedulingProfiles: [{name: b, enabled: false}]",
            "schedulingProfiles", ["a", "b"], id="profiles by name",
        ),
    ],
)  # fmt: skip
def test_named_lists_are_merged_by_name(base: str, over: str, path: str, names: list[str | None]) -> None:
    items = merged(base, over)[path]
    assert named(items) == names
    assert items[-1]["enabled"] is False


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        pytest.param(
            "dataLayer: {sources: [{pluginRef: a}]}",
            "dataLayer: {sources: [{pluginRef: a, extractors: [{pluginRef: x}]}]}",
            {"dataLayer": {"sources": [{"pluginRef": "a", "extractors": [{"pluginRef": "x"}]}]}},
            id="sources by pluginRef",
        ),
        pytest.param(
            "dataLayer: {sources: [{pluginRef: a, extractors: [{pluginRef: x}]}]}",
            "dataLayer: {sources: [{pluginRef: a, extractors: [{pluginRef: x}, {pluginRef: y}]}]}",
            {"dataLayer": {"sources": [{"pluginRef": "a", "extractors": [{"pluginRef": "x"}, {"pluginRef": "y"}]}]}},
            id="extractors by pluginRef",
        ),
        pytest.param(
            "requestHandler: {parsers: [{pluginRef: a}]}", "requestHandler: {parsers: [{pluginRef: a}, {pluginRef: b}]}",
            {"requestHandler": {"parsers": [{"pluginRef": "a"}, {"pluginRef": "b"}]}}, id="parsers by pluginRef",
        ),
        pytest.param(
            "pool: {endpoints: [{name: a, port: 1}, {name: b, port: 2}]}", "pool: {endpoints: [{name: b, port: 3}]}",
            {"pool": {"endpoints": [{"name": "a", "port": 1}, {"name": "b", "port": 3}]}}, id="endpoints by name",
        ),
        pytest.param(
            "flowControl: {priorityBands: [{priority: 0, maxBytes: 1}, {priority: 5}]}",
            "flowControl: {priorityBands: [{priority: 0, maxRequests: 2}]}",
            {"flowControl": {"priorityBands": [{"priority": 0, "maxBytes": 1, "maxRequests": 2}, {"priority": 5}]}},
            id="bands by priority",
        ),
        pytest.param(
            "schedulingProfiles: [{name: p, plugins: [{pluginRef: a, weight: 1}, {pluginRef: b, weight: 2}]}]",
            "schedulingProfiles: [{name: p, plugins: [{pluginRef: b, weight: 7}]}]",
            {"schedulingProfiles": [
                {"name": "p", "plugins": [{"pluginRef": "a", "weight": 1}, {"pluginRef": "b", "weight": 7}]}
            ]},
            id="a profile's entries by pluginRef",
        ),
    ],
)  # fmt: skip
def test_every_named_list_is_merged_by_its_own_key(base: str, over: str, result: object) -> None:
    assert merged(base, over) == result


@pytest.mark.parametrize(
    ("over", "order"),
    [
        pytest.param("{pluginRef: b, weight: 9}", "abc", id="a changed one stays where it is"),
        pytest.param("{pluginRef: c}, {pluginRef: a}", "abc", id="the base's order is kept"),
        pytest.param("{pluginRef: d}", "abcd", id="a new one at the end"),
        pytest.param("{pluginRef: d}, {pluginRef: e}", "abcde", id="new ones in their order"),
        pytest.param("{pluginRef: d, before: a}", "dabc", id="a new one at the beginning"),
        pytest.param("{pluginRef: d, before: c}", "abdc", id="a new one before another"),
        pytest.param("{pluginRef: d, after: a}", "adbc", id="a new one after another"),
        pytest.param("{pluginRef: d, after: c}", "abcd", id="a new one after the last"),
        pytest.param("{pluginRef: c, before: a}", "cab", id="an existing one moved forward"),
        pytest.param("{pluginRef: a, after: b}", "bac", id="an existing one moved back"),
        pytest.param("{pluginRef: d, before: b}, {pluginRef: e, before: d}", "aedbc", id="beside a new one"),
    ],
)
def test_an_entry_is_placed_where_its_layer_says(over: str, order: str) -> None:
    assert entries(ABC, PROFILE.format(over)) == list(order)


def test_an_entry_that_moves_keeps_its_weight() -> None:
    (profile,) = merged(ABC, PROFILE.format("{pluginRef: b, before: a}"))["schedulingProfiles"]
    assert profile["plugins"][0] == {"pluginRef": "b", "weight": 2}


def test_entries_of_one_layer_can_be_ordered() -> None:
    assert entries(PROFILE.format("{pluginRef: a}, {pluginRef: b}, {pluginRef: c, before: a}")) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("base", "over", "names"),
    [
        pytest.param("plugins: [{name: a}]", "plugins: [{name: b, before: a}]", ["b", "a"], id="plugins"),
        pytest.param("plugins: [{type: a}]", "plugins: [{name: b, before: a}]", ["b", None], id="before a type"),
    ],
)
def test_plugins_can_be_ordered(base: str, over: str, names: list[str]) -> None:
    assert named(merged(base, over)["plugins"]) == names


def test_bands_are_ordered_by_their_number() -> None:
    tree = merged("flowControl: {priorityBands: [{priority: 5}, {priority: 1, before: 5}]}")
    assert named(tree["flowControl"]["priorityBands"], "priority") == [1, 5]


@pytest.mark.parametrize(
    ("over", "place"),
    [
        pytest.param("{pluginRef: d, before: zzz}", "1:1:57", id="before one that is not there"),
        pytest.param("{pluginRef: d, after: zzz}", "1:1:57", id="after one that is not there"),
        pytest.param("{pluginRef: a, before: a}", "1:1:57", id="before itself"),
        pytest.param("{pluginRef: d, before: [a]}", "1:1:57", id="before a list"),
    ],
)
def test_an_unknown_neighbour_is_an_error_that_lists_the_names(over: str, place: str) -> None:
    (fault,) = merge_faults(ABC, PROFILE.format(over))
    assert fault.startswith(f"{place}: schedulingProfiles[0].plugins[0].")
    assert "b, c" in fault


def test_changing_the_type_drops_inherited_parameters() -> None:
    base = "plugins: [{name: a, type: sized, parameters: {hashBlockSize: 1}}]"
    assert merged(base, "plugins: [{name: a, type: other}]") == {"plugins": [{"name": "a", "type": "other"}]}


def test_changing_the_type_keeps_the_parameters_that_come_with_it() -> None:
    base = "plugins: [{name: a, type: sized, parameters: {hashBlockSize: 1}}]"
    (plugin,) = merged(base, "plugins: [{name: a, type: other, parameters: {capacity: 3}}]")["plugins"]
    assert plugin["parameters"] == {"capacity": 3}


def test_naming_the_same_type_again_keeps_the_parameters() -> None:
    base = "plugins: [{name: a, type: sized, parameters: {capacity: 1}}]"
    (plugin,) = merged(base, "plugins: [{name: a, type: sized, parameters: {hashBlockSize: 2}}]")["plugins"]
    assert plugin["parameters"] == {"capacity": 1, "hashBlockSize": 2}


def test_parameters_in_a_later_layer_have_the_inherited_type() -> None:
    faults = merge_faults("plugins: [{name: a, type: other}]", "plugins: [{name: a, parameters: {hashBlockSize: 1}}]")
    assert faults == ["1:1:34: plugins[0].parameters.hashBlockSize: unknown key 'hashBlockSize'; known: capacity"]


def test_a_label_named_type_drops_nothing() -> None:
    base = "pool: {endpoints: [{name: a, labels: {type: x, parameters: y}}]}"
    (endpoint,) = merged(base, "pool: {endpoints: [{name: a, labels: {type: z}}]}")["pool"]["endpoints"]
    assert endpoint["labels"] == {"type": "z", "parameters": "y"}


def test_items_without_a_name_are_added() -> None:
    assert len(merged("plugins: [{enabled: true}]", "plugins: [{enabled: false}, 5]")["plugins"]) == 3


def test_each_value_has_its_origin_in_the_layer_that_set_it() -> None:
    tree, _ = layered("shutdown: {delay: 1s, timeout: 1s}", "shutdown:\n  timeout: 2s")
    shutdown = tree.entries["shutdown"].node
    assert [str(entry.origin) for entry in shutdown.entries.values()] == ["0:1:12", "1:2:3"]


def test_three_layers_are_merged_in_order() -> None:
    assert merged("kind: a", "kind: b\napiVersion: x", "kind: c") == {"kind": "c", "apiVersion": "x"}
