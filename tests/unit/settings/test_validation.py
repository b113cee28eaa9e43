"""Every wrong value is told at its place, and the rest is checked all the same."""

from __future__ import annotations

import pytest

from tests.unit.settings.given import configuration, problems

WRONG = [
    ("transports: {http: {port: 70000}}", "1:21: transports.http.port: expected a number of at most 65535, found 70000"),
    ("transports: {http: {port: -1}}", "expected a number of at least 0, found -1"),
    ("transports: {http: {port: x}}", "expected a whole number, found the text 'x'"),
    ("transports: {http: {port: true}}", "expected a whole number, found the boolean true"),
    ("transports: {http: {port: 1.5}}", "expected a whole number, found 1.5"),
    ("transports: {http: {port: [1]}}", "expected a whole number, found a list"),
    ("transports: {http: {enabled: on}}", "expected true or false, found the text 'on'"),
    ("transports: {http: []}", "1:14: transports.http: expected a mapping, found a list"),
    ("transports: {http: text}", "expected a mapping, found the text 'text'"),
    ("pool: {endpoints: {}}", "expected a list, found a mapping"),
    ("pool: {endpoints: [a]}", "1:20: pool.endpoints[0]: expected a mapping, found the text 'a'"),
    ("pool: {endpoints: [{name: a, address: x}]}", "the key 'port' is missing"),
    ("pool: {endpoints: [{name: a, address: x, port: 0}]}", "expected a number of at least 1, found 0"),
    ("pool: {endpoints: [{name: 7, address: x, port: 1}]}", "expected text, found 7; quote it"),
    ("pool: {endpoints: [{name: a, address: x, port: 1, labels: {k: true}}]}", "pool.endpoints[0].labels.k: expected text, found the boolean true; quote it"),
    ("pool: {scrape: {interval: 5}}", "expected a duration such as 250ms, 1.5s or 1h30m"),
    ("pool: {scrape: {interval: 1}}", "pool.scrape.interval: "),
    ("pool: {scrape: {interval: soon}}", "expected a duration"),
    ("pool: {scrape: {interval: -1s}}", "expected a number of at least 0.01, found "),
    ("transports: {http: {limits: {bodyBytes: 1Xi}}}", "expected a quantity such as 1024, 500M or 1Gi"),
    ("transports: {http: {limits: {bodyBytes: '-1'}}}", "expected a number of at least 1024"),
    ("transports: {admin: {allowFrom: [home]}}", "transports.admin.allowFrom[0]: "),
    ("observability: {logging: {level: warnin}}", "did you mean 'warning'?"),
    ("schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: -1}]}]", "plugins[0].weight: expected a number of at least 0, found -1"),
    ("schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: .nan}]}]", "expected a finite number, found nan"),
    ("schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: .inf}]}]", "expected a finite number, found inf"),
    ("schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: true}]}]", "expected a number, found the boolean true"),
    ("schedulingProfiles: [{name: a, plugins: [{pluginRef: x, weight: '1'}]}]", "expected a number, found the text '1'"),
    ("schedulingProfiles: [{plugins: []}]", "the key 'name' is missing"),
    ("schedulingProfiles: [{name: a, plugins: [{weight: 1}]}]", "the key 'pluginRef' is missing"),
    ("plugins: [{parameters: {a: 1}}]", "the key 'type' is missing"),
    ("plugins: [{type: ''}]", "expected text that is not empty"),
    ("plugins: [testing 1 2 3]", "1:11: plugins[0]: expected a mapping, found the text 'testing 1 2 3'"),
    ("dataLayer: {sources: [{pluginRef: a, extractors: [b]}]}", "dataLayer.sources[0].extractors[0]: expected a mapping, found the text 'b'"),
    ("flowControl: {maxBytes: '-1'}", "flowControl.maxBytes: expected a number of at least 0"),
    ("flowControl: {defaultRequestTTL: 60}", "flowControl.defaultRequestTTL: expected a duration"),
    ("apiVersion: llm-d.ai/v1", "1:1: apiVersion: expected llm-d.ai/v1alpha1 or inference.networking.x-k8s.io/v1alpha1, found 'llm-d.ai/v1'"),
    ("kind: Pod", "1:1: kind: expected EndpointPickerConfig, found 'Pod'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), WRONG, ids=[text for text, _ in WRONG])
def test_a_wrong_value_is_told_at_its_place(text: str, fault: str) -> None:
    (found,) = problems(text)
    assert found.startswith("--config-text:1:")
    assert fault in found


def test_several_faults_are_told_at_once_in_the_order_of_the_text() -> None:
    found = problems(
        "plugins: [{}, {type: 1}]\npool: {scrape: {interval: x}}\ntransports: {http: {port: a}, nothing: 1}"
    )
    assert [fault.split(":")[1] for fault in found] == ["1", "1", "2", "3", "3"]


def test_what_is_right_is_kept_when_something_else_is_wrong() -> None:
    loaded = configuration("plugins: [{type: a}, {}, {type: b}]\npool: {scrape: {interval: 2s, timeout: x}}")
    assert [plugin.type for plugin in loaded.settings.plugins] == ["a", "b"]
    assert loaded.settings.pool.scrape.interval == 2


def test_the_deprecated_version_is_a_warning() -> None:
    loaded = configuration("apiVersion: inference.networking.x-k8s.io/v1alpha1")
    assert not loaded.faults
    assert "deprecated, now it is llm-d.ai/v1alpha1" in str(loaded.faults.warnings[0])


@pytest.mark.parametrize("key", ["apiKey", "password", "clientSecret"])
def test_a_value_that_looks_like_a_secret_is_not_shown(key: str) -> None:
    (fault,) = problems(f"pool: {{endpoints: [{{name: a, address: x, port: 1, labels: {{{key}: 12345}}}}]}}")
    assert "12345" not in fault


def test_a_long_text_is_not_shown() -> None:
    (fault,) = problems(f"transports: {{http: {{port: {'x' * 98}}}}}")
    assert fault.endswith("expected a whole number, found text of 100 characters")
