"""The JSON Schema: what loads validates, what is wrong in a document does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from app.describing.schema import document_schema, schema_text
from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.tree import plain
from containers.application import catalogue
from tests.config.test_shipped import ROOT as SHAPE
from tests.config.test_shipped import keys_in_schema

ROOT = Path(__file__).parents[3]
SCHEMA = document_schema(catalogue())
GOOD = [
    *sorted((ROOT / "config").rglob("*.yaml")),
    *sorted((ROOT / "tests" / "data" / "corpus" / "good").glob("*.yaml")),
]
VALIDATOR = Draft202012Validator(SCHEMA)
KEYWORDS = {
    "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "description", "else", "enum", "examples",
    "exclusiveMinimum", "if", "items", "maximum", "maxLength", "minimum", "minItems", "minLength", "not", "pattern",
    "patternProperties", "properties", "required", "then", "type",
}  # fmt: skip


def wrong_in(text: str) -> list[str]:
    """The places of a document at which the schema finds something."""
    faults = Faults()
    document = plain(read_yaml(text, "text", faults))
    assert not faults.errors
    return [error.json_path for error in VALIDATOR.iter_errors(document)]


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_committed_file_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "schema.json").read_text(encoding="utf-8")
    assert committed == schema_text(catalogue()), "run: make docs"


def test_it_has_no_keywords_but_those_of_json_schema() -> None:
    def visit(schema: Any) -> None:
        if not isinstance(schema, dict):
            return
        assert set(schema) <= KEYWORDS, schema
        for key in ("properties", "patternProperties"):
            for inner in schema.get(key, {}).values():
                visit(inner)
        for key in ("items", "if", "then", "else", "not", "additionalProperties"):
            visit(schema.get(key))
        for key in ("anyOf", "allOf"):
            for inner in schema.get(key, []):
                visit(inner)

    visit({key: value for key, value in SCHEMA.items() if key not in ("$schema", "$defs", "title")})
    for definition in SCHEMA["$defs"].values():
        visit(definition)


def test_every_reference_leads_somewhere() -> None:
    def references(value: Any) -> Any:
        if isinstance(value, dict):
            yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    for reference in set(references(SCHEMA)):
        node: Any = SCHEMA
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_every_configuration_that_is_shipped_or_known_to_be_good_validates(path: Path) -> None:
    assert not wrong_in(path.read_text(encoding="utf-8"))


def test_every_key_is_in_it() -> None:
    text = schema_text(catalogue())
    assert not [
        path for path in keys_in_schema(SHAPE) if f'"{path.rpartition(".")[2].removesuffix("[]")}": {{' not in text
    ]


def loading_rows() -> list[Any]:
    """The configurations of the Go pickers' table that load."""
    table = yaml.safe_load((ROOT / "tests" / "data" / "go_table.yaml").read_text(encoding="utf-8"))
    cases = [{**row, **case} for row in table["rows"] for case in row.get("cases", [{}])]
    return [
        pytest.param(case["config"], id=f"{case['row']} {case['title']}")
        for case in cases
        if case["outcome"] == "loads" and case["config"] and case["row"] != "R18"  # keys all in capitals are too odd
    ]


@pytest.mark.parametrize("text", loading_rows())
def test_what_the_go_table_loads_validates(text: str) -> None:
    assert not wrong_in(text)


RIGHT = [
    pytest.param("", id="nothing"),
    pytest.param("plugins:\npool:\n  endpoints:\ntransports: {http: null}", id="null for sections and lists"),
    pytest.param("pool: {endpoints: [{name: a, labels: }]}", id="null for a mapping of text"),
    pytest.param("plugins: [{type: queue-scorer, parameters: }]", id="null for parameters"),
    pytest.param("plugins: [{type: label-selector-filter, parameters: {matchLabels: }}]", id="null in parameters"),
    pytest.param("plugins: [{type: acme-scorer, parameters: {any: [1]}}]", id="an installed type"),
    pytest.param("plugins: [{type: 'a.py:Mine', parameters: text}]", id="a class in a file"),
    pytest.param("plugins: [{name: endpoints, parameters: {path: x}}]", id="an overlay that names no type"),
    pytest.param("plugins: [{type: file-discovery, parameters: {watchFile: true}}]", id="an overlay of parameters"),
    pytest.param("plugins: [{type: queue-scorer, after: random-picker}]", id="a plugin's place"),
    pytest.param("flowControl: {priorityBands: [{priority: 1, before: 0}]}", id="a band's place"),
    pytest.param("scheduling-profiles: [{name: a, plugins: [{plugin_ref: b}]}]", id="with dashes and underscores"),
    pytest.param("pool: {scrape: {stale_after: 5s, interval: 1h30m0.5s}}", id="durations"),
    pytest.param("pool: {scrape: {interval: '0'}}", id="no time at all"),
    pytest.param("transports: {http: {limits: {bodyBytes: 1Gi, headerBytes: 2048}, port: 0}}", id="quantities"),
    pytest.param("plugins: [{type: prefix-cache, parameters: {LRUIndexerSize: 5}}]", id="a parameter's second name"),
    pytest.param("plugins: [{type: prefix-cache, parameters: {lruCapacityPerServer: 5}}]", id="its third one"),
    pytest.param("plugins: [{type: prefix-cache, parameters: {lru-indexer-size: 5}}]", id="the second, with dashes"),
    pytest.param("endpointPickingProfiles: [{name: a, scorers: [{type: b, args: {c: 1}}]}]", id="sections in place"),
    pytest.param("endpointPickingProfiles: [a: [{name: prefix-cache, parameters: {hashBlockSize: 4}}, b]]", id="short"),
    pytest.param("schedulingProfiles: [{name: a, picker: random-picker, filters: [{name: b}]}]", id="a picker by name"),
    pytest.param("apiVersion: inference.networking.x-k8s.io/v1alpha1", id="the older version"),
]  # fmt: skip


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_validates(text: str) -> None:
    assert not wrong_in(text)


WRONG = [
    pytest.param("pool: {scrap: }", "$.pool", id="unknown key"),
    pytest.param("apiVersion: v2", "$.apiVersion", id="another version"),
    pytest.param("kind: Pod", "$.kind", id="another kind"),
    pytest.param("plugins: {type: a}", "$.plugins", id="no list"),
    pytest.param("plugins: [{enabled: true}]", "$.plugins[0]", id="a plugin without a name or type"),
    pytest.param("plugins: [{type: a, enabled: }]", "$.plugins[0].enabled", id="null for a value"),
    pytest.param("pool: {scrape: {interval: 5}}", "$.pool.scrape.interval", id="a duration without a unit"),
    pytest.param("pool: {scrape: {interval: 5 s}}", "$.pool.scrape.interval", id="a duration with a space"),
    pytest.param("pool: {scrape: {stale_after: 5x}}", "$.pool.scrape.stale_after", id="in another spelling"),
    pytest.param("transports: {http: {port: 70000}}", "$.transports.http.port", id="no port"),
    pytest.param("transports: {http: {limits: {bodyBytes: 1Zi}}}", "$.transports.http.limits.bodyBytes", id="a unit"),
    pytest.param("transports: {http: {limits: {bodyBytes: 5}}}", "$.transports.http.limits.bodyBytes", id="too little"),
    pytest.param("observability: {logging: {level: loud}}", "$.observability.logging.level", id="no level"),
    pytest.param(
        "schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]",
        "$.schedulingProfiles[0].plugins[0]", id="an entry without a reference",
    ),
    pytest.param(
        "plugins: [{type: queue-scorer, parameters: {a: 1}}]", "$.plugins[0].parameters", id="a parameter where none is",
    ),
    pytest.param(
        "plugins: [{name: x, type: prefix-cache, parameters: {hashBlockSize: 0}}]",
        "$.plugins[0].parameters.hashBlockSize", id="a parameter out of range",
    ),
    pytest.param(
        "plugins: [{type: by-label-selector, parameters: {matchLabels: [a]}}]",
        "$.plugins[0].parameters.matchLabels", id="by an alias",
    ),
    pytest.param(
        "plugins: [{type: match-profile-picker, parameters: {rules: [{model: a}]}}]",
        "$.plugins[0].parameters.rules[0]", id="something that a parameter's item must have",
    ),
    pytest.param(
        "plugin_references: [{name: x, plugin: prefix-cache, parameters: {hash: 1}}]",
        "$.plugin_references[0].parameters", id="a declared plugin's parameter",
    ),
    pytest.param(
        "endpointPickingProfiles: [{name: a, plugins: [{name: prefix-cache, args: {hash: 1}}]}]",
        "$.endpointPickingProfiles[0].plugins[0]", id="an argument in place, by name",
    ),
    pytest.param(
        "endpointPickingProfiles: [a: [{name: b, type: prefix-cache, args: {hash: 1}}]]",
        "$.endpointPickingProfiles[0].a[0]", id="an argument in place, by type",
    ),
    pytest.param("endpointPickingProfiles: [a: b]", "$.endpointPickingProfiles[0].a", id="a short profile of no list"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place"), WRONG)
def test_what_is_wrong_is_found_at_its_place(text: str, place: str) -> None:
    assert wrong_in(text) == [place]


def test_types_and_aliases_are_offered_and_deprecated_ones_are_not() -> None:
    offered = SCHEMA["$defs"]["plugin-type"]["anyOf"][0]["enum"]
    assert {"queue-scorer", "server-queue-length"} <= set(offered)
    assert not {"by-label", "by-label-selector"} & set(offered)


def test_keys_are_described_and_have_their_defaults_as_yaml_has_them() -> None:
    http = SCHEMA["$defs"]["HttpTimeouts"]["properties"]["connect"]
    assert (http["description"], http["default"]) == (
        "Time to obtain a connection to an endpoint. Then another endpoint is tried, up to `retries` times.",
        "2s",
    )
    assert all("description" in schema for schema in SCHEMA["properties"].values() if "$ref" not in schema)
