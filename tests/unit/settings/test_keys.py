"""Keys of a layer: spellings, unknown keys, and duplicate names."""

from __future__ import annotations

import pytest

from app.settings.errors import Faults
from app.settings.keys import name_of
from app.settings.reader import read_yaml
from app.settings.tree import Entries

from .given import merge_faults, merged

SPELLINGS = ["hash-block-size", "hashBlockSize", "hash_block_size", "HASH_BLOCK_SIZE"]


@pytest.mark.parametrize("key", ["staleAfter", "stale-after", "stale_after", "STALE_AFTER", "staleafter"])
def test_a_key_of_a_section_may_have_any_spelling(key: str) -> None:
    assert merged(f"pool: {{scrape: {{{key}: 9s}}}}") == {"pool": {"scrape": {"staleAfter": "9s"}}}


@pytest.mark.parametrize("key", SPELLINGS)
def test_a_key_of_parameters_may_have_any_spelling(key: str) -> None:
    (plugin,) = merged(f"plugins: [{{type: sized, parameters: {{{key}: 8}}}}]")["plugins"]
    assert plugin["parameters"] == {"hashBlockSize": 8}


@pytest.mark.parametrize("key", SPELLINGS)
def test_a_key_means_the_same_in_every_layer(key: str) -> None:
    base = "plugins: [{name: a, type: sized, parameters: {hashBlockSize: 8, capacity: 2}}]"
    (plugin,) = merged(base, f"plugins: [{{name: a, parameters: {{{key}: 9}}}}]")["plugins"]
    assert plugin["parameters"] == {"hashBlockSize": 9, "capacity": 2}


@pytest.mark.parametrize(
    "parameters",
    ["nested: {top-k: 3}", "several: [{top_k: 3}]"],
    ids=["in a mapping", "in a list"],
)
def test_nested_keys_of_parameters_are_normalised(parameters: str) -> None:
    (plugin,) = merged(f"plugins: [{{type: sized, parameters: {{{parameters}}}}}]")["plugins"]
    assert plugin["parameters"] in ({"nested": {"topK": 3}}, {"several": [{"topK": 3}]})


def test_keys_of_list_items_are_normalised() -> None:
    assert merged("scheduling-profiles: [{name: a, plugins: [{plugin_ref: x}]}]") == {
        "schedulingProfiles": [{"name": "a", "plugins": [{"pluginRef": "x"}]}]
    }


def test_labels_of_endpoints_are_not_normalised() -> None:
    labels = {"llm-d.ai/role": "x", "plugin-ref": "a", "pluginRef": "b", "match_labels": "c", "type": "d"}
    text = ", ".join(f"{key}: {value}" for key, value in labels.items())
    (endpoint,) = merged(f"pool: {{endpoints: [{{name: a, labels: {{{text}}}}}]}}")["pool"]["endpoints"]
    assert endpoint["labels"] == labels


def test_labels_in_parameters_are_not_normalised() -> None:
    text = "plugins: [{type: sized, parameters: {nested: {match-labels: {top-k: a, topK: b}}}}]"
    assert merged(text)["plugins"][0]["parameters"] == {"nested": {"matchLabels": {"top-k": "a", "topK": "b"}}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            "pool:\n  scrape: {}\n  Scrape: {}\n",
            "0:3:3: pool.Scrape: duplicate key 'scrape', first at 0:2:3 in another spelling",
            id="in a section",
        ),
        pytest.param(
            "plugins:\n- type: sized\n  parameters:\n    hash-block-size: 1\n    hashBlockSize: 2\n",
            "0:5:5: plugins[0].parameters.hashBlockSize: duplicate key 'hashBlockSize', first at 0:4:5 "
            "in another spelling",
            id="in parameters",
        ),
    ],
)
def test_two_spellings_of_a_key_in_one_mapping_are_an_error(text: str, fault: str) -> None:
    assert merge_faults(text) == [fault]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        pytest.param("pol: {}", "0:1:1: pol: unknown key 'pol'; did you mean 'pool'?", id="at the top"),
        pytest.param("pool:\n  scrap: {}", "0:2:3: pool.scrap: unknown key 'scrap'; did you", id="in a section"),
        pytest.param("scrape: {}", "0:1:1: scrape: unknown key 'scrape'; 'scrape' belongs in pool", id="elsewhere"),
        pytest.param(
            "pool: {plugins: []}",
            "0:1:8: pool.plugins: unknown key 'plugins'; 'plugins' belongs in the top level or schedulingProfiles[]",
            id="in two places elsewhere",
        ),
        pytest.param(
            "plugins: [{type: sized, parameters: {hashBlockSise: 1}}]",
            "0:1:38: plugins[0].parameters.hashBlockSise: unknown key 'hashBlockSise'; did you mean 'hashBlockSize'?",
            id="in parameters",
        ),
        pytest.param("pool: {before: a}", "0:1:8: pool.before: unknown key 'before'", id="an order without a list"),
        pytest.param(
            "dataLayer: {discovery: {pluginRef: a, before: b}}",
            "0:1:39: dataLayer.discovery.before: unknown key 'before'",
            id="an order in a reference that is in no list",
        ),
    ],
)
def test_an_unknown_key_is_an_error_with_a_hint(text: str, start: str) -> None:
    (fault,) = merge_faults(text)
    assert fault.startswith(start)


def test_keys_below_an_unknown_key_are_not_reported() -> None:
    assert merge_faults("pool: {x: {y: 1}}")[0].count("unknown key") == 1


def test_parameters_of_an_unknown_type_are_not_normalised() -> None:
    parameters = {"any-thing": 1, "anyThing": 2}
    text = "plugins: [{type: unheard-of, parameters: {any-thing: 1, anyThing: 2}}]"
    assert merged(text)["plugins"][0]["parameters"] == parameters


def test_parameters_that_are_not_a_mapping_are_kept_for_validation() -> None:
    assert merged("plugins: [{type: sized, parameters: [1]}]")["plugins"][0]["parameters"] == [1]


@pytest.mark.parametrize(
    ("text", "name", "places"),
    [
        pytest.param("plugins:\n- name: a\n- name: a\n", "a", ("0:3:3", "0:2:3"), id="plugins"),
        pytest.param("plugins:\n- type: a\n- {name: a, type: b}\n", "a", ("0:3:3", "0:2:3"), id="a type and a name"),
        pytest.param("schedulingProfiles:\n- name: a\n- name: a\n", "a", ("0:3:3", "0:2:3"), id="profiles"),
        pytest.param(
            "schedulingProfiles:\n- name: p\n  plugins:\n  - pluginRef: a\n  - pluginRef: a\n",
            "a", ("0:5:5", "0:4:5"), id="entries of a profile",
        ),
        pytest.param("dataLayer:\n  sources:\n  - pluginRef: a\n  - pluginRef: a", "a", ("0:4:5", "0:3:5"), id="sources"),
        pytest.param(
            "dataLayer:\n  sources:\n  - pluginRef: s\n    extractors:\n    - pluginRef: a\n    - pluginRef: a\n",
            "a", ("0:6:7", "0:5:7"), id="extractors",
        ),
        pytest.param("requestHandler:\n  parsers:\n  - pluginRef: a\n  - pluginRef: a", "a", ("0:4:5", "0:3:5"), id="parsers"),
        pytest.param("pool:\n  endpoints:\n  - name: a\n  - name: a\n", "a", ("0:4:5", "0:3:5"), id="endpoints"),
        pytest.param(
            "flowControl:\n  priorityBands:\n  - priority: 1\n  - priority: 1\n", "1", ("0:4:5", "0:3:5"), id="bands"
        ),
    ],
)  # fmt: skip
def test_a_duplicate_name_in_one_layer_is_an_error_with_both_positions(
    text: str, name: str, places: tuple[str, str]
) -> None:
    (fault,) = merge_faults(text)
    assert fault.startswith(f"{places[0]}: ")
    assert fault.endswith(f"duplicate name '{name}' in this list; first at {places[1]}")


def test_the_same_name_in_two_layers_is_allowed() -> None:
    assert not merge_faults("plugins: [{type: a}]", "plugins: [{type: a}]")


def test_the_same_name_in_two_lists_is_allowed() -> None:
    assert not merge_faults(
        "schedulingProfiles: [{name: a, plugins: [{pluginRef: x}]}, {name: b, plugins: [{pluginRef: x}]}]"
    )


@pytest.mark.parametrize(
    "text",
    ["pool: null", "plugins: null", "flowControl:", "pool: {scrape: ~}", "dataLayer: {sources: null}"],
)
def test_a_null_section_or_list_counts_as_absent(text: str) -> None:
    assert merged(text) in ({}, {"pool": {}}, {"dataLayer": {}})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("{name: a, type: b}", "a", id="its name"),
        pytest.param("{type: b}", "b", id="its type"),
        pytest.param("{name: '', type: b}", "b", id="its type when the name is empty"),
        pytest.param("{name: null, type: b}", "b", id="its type when the name is null"),
        pytest.param("{name: 5}", "5", id="a number"),
        pytest.param("{name: 0}", "0", id="zero"),
        pytest.param("{}", None, id="none"),
        pytest.param("{name: [a]}", None, id="not text"),
        pytest.param("text", "text", id="text"),
    ],
)
def test_an_item_is_named_by_its_first_non_empty_key(text: str, name: str | None) -> None:
    item = read_yaml(f"item: {text}", "f", Faults()).entries["item"].node
    assert name_of(item, ("name", "type")) == name


def test_text_in_place_of_a_section_is_kept_for_validation() -> None:
    assert isinstance(read_yaml("pool: x", "f", Faults()), Entries)
    assert merged("pool: x") == {"pool": "x"}
