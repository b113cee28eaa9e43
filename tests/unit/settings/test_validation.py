"""Validation of the tree: invalid values are reported with their position in plain words."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.tree import plain
from app.settings.validation import report

from .given import configuration, problems

ENDPOINT = "pool: {{endpoints: [{{name: a, address: b, port: 1, {}}}]}}"


class Numbers(BaseModel):
    """Bounds of every kind."""

    above: float = Field(default=1, gt=0)
    below: float = Field(default=1, lt=2.5)
    word: str = Field(default="a", pattern="^a+$")
    either: int | str = 0
    unique: set[int] = set()
    frozen: frozenset[int] = frozenset()
    listed: list[Annotated[int, Field(ge=0)]] = []
    secret_token: int = 0


def said(text: str) -> list[str]:
    """The faults of `text` as `Numbers`."""
    faults = Faults()
    tree = read_yaml(text, "f", faults)
    with pytest.raises(ValidationError) as raised:
        Numbers.model_validate(plain(tree), strict=True)
    for fault in raised.value.errors(include_url=False):
        report(fault, tree, faults)
    return [str(fault) for fault in faults.all]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("pool: 5", "1:1: pool: expected a mapping, found 5", id="a number for a mapping"),
        pytest.param("pool: [a]", "1:1: pool: expected a mapping, found a list", id="a list for a mapping"),
        pytest.param("plugins: {a: b}", "1:1: plugins: expected a list, found a mapping", id="a mapping for a list"),
        pytest.param("plugins: x", "1:1: plugins: expected a list, found the text 'x'", id="text for a list"),
        pytest.param("kind: 5", "1:1: kind: expected text, found 5; quote it", id="a number for text"),
        pytest.param("kind: true", "1:1: kind: expected text, found the boolean true; quote it", id="true for text"),
        pytest.param("kind: null", "1:1: kind: expected text, found nothing", id="nothing for text"),
        pytest.param("kind: {a: 1}", "1:1: kind: expected text, found a mapping", id="a mapping for text"),
        pytest.param(
            "simulation:\n  servers: 1.5", "2:3: simulation.servers: expected a whole number, found 1.5",
            id="a fraction for a whole number",
        ),
        pytest.param(
            "simulation: {servers: '3'}", "1:14: simulation.servers: expected a whole number, found the text '3'",
            id="text for a number",
        ),
        pytest.param(
            "simulation: {servers: true}", "1:14: simulation.servers: expected a whole number, found the boolean true",
            id="true for a number",
        ),
        pytest.param(
            "simulation: {servers: -1}", "1:14: simulation.servers: expected a number from 0 to 100, found -1",
            id="too small",
        ),
        pytest.param(
            "simulation: {servers: 101}", "1:14: simulation.servers: expected a number from 0 to 100, found 101",
            id="too large",
        ),
        pytest.param(
            "simulation: {decodeTokensPerSecond: 0}",
            "1:14: simulation.decodeTokensPerSecond: expected a number of more than 0, found 0", id="not above",
        ),
        pytest.param(
            "simulation: {decodeTokensPerSecond: .inf}",
            "1:14: simulation.decodeTokensPerSecond: expected a finite number, found inf", id="infinite",
        ),
        pytest.param(
            "simulation: {model: ''}", "1:14: simulation.model: expected non-empty text, found the text ''",
            id="empty text",
        ),
        pytest.param(
            "transports: {http: {enabled: yes}}",
            "1:21: transports.http.enabled: expected true or false, found the text 'yes'", id="yes for true",
        ),
        pytest.param(
            "transports: {http: {enabled: 1}}", "1:21: transports.http.enabled: expected true or false, found 1",
            id="one for true",
        ),
        pytest.param(
            "observability: {logging: {level: warnig}}",
            "1:27: observability.logging.level: expected 'debug', 'info', 'warning' or 'error', "
            "found the text 'warnig'; did you mean 'warning'?",
            id="a typo in a word",
        ),
        pytest.param(
            "observability: {logging: {format: 5}}",
            "1:27: observability.logging.format: expected 'json' or 'console', found 5", id="a number for a word",
        ),
        pytest.param(
            "pool: {scrape: {interval: soon}}",
            "1:17: pool.scrape.interval: expected a duration such as 250ms, 1.5s or 1h30m", id="no duration",
        ),
        pytest.param(
            "pool: {scrape: {interval: 1ms}}", "1:17: pool.scrape.interval: expected a number of at least 0.01, found",
            id="a duration too short",
        ),
        pytest.param(
            "pool: {scrape: {interval: 1}}", "1:17: pool.scrape.interval: expected a duration", id="a bare number"
        ),
        pytest.param(
            "pool: {scrape: {interval: 1.5}}", "1:17: pool.scrape.interval: expected a duration", id="a bare fraction"
        ),
        pytest.param(
            "transports: {http: {limits: {bodyBytes: 1GB}}}",
            "1:30: transports.http.limits.bodyBytes: expected a quantity such as 1024, 500M or 1Gi", id="no quantity",
        ),
        pytest.param(
            "transports: {admin: {allowFrom: [10.0.0.0/8, x]}}", "1:46: transports.admin.allowFrom[1]: 'x' does not",
            id="no network",
        ),
        pytest.param(
            ENDPOINT.format("labels: {a: 5}"), "1:60: pool.endpoints[0].labels.a: expected text, found 5; quote it",
            id="a number as a label",
        ),
        pytest.param(
            ENDPOINT.format("labels: {int: 5}"), "1:60: pool.endpoints[0].labels.int: expected text, found 5; quote it",
            id="a label named like a type",
        ),
        pytest.param(
            ENDPOINT.format("labels: {'a[b': 5}"), "1:60: pool.endpoints[0].labels.a[b: expected text, found 5; quote",
            id="a label with a bracket",
        ),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported_once_in_plain_words(text: str, fault: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"--config-text:{fault}")


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        pytest.param("above: 0", ["f:1:1: above: expected a number of more than 0, found 0"], id="more than"),
        pytest.param("below: 2.5", ["f:1:1: below: expected a number of less than 2.5, found 2.5"], id="less than"),
        pytest.param("word: b", ["f:1:1: word: expected text that matches ^a+$, found the text 'b'"], id="a pattern"),
        pytest.param("unique: 5", ["f:1:1: unique: expected a list, found 5"], id="a set"),
        pytest.param("frozen: {}", ["f:1:1: frozen: expected a list, found a mapping"], id="a frozen set"),
        pytest.param("listed: [1, -1]", ["f:1:13: listed[1]: expected a number of at least 0, found -1"], id="an item"),
    ],
)
def test_bounds_are_reported_in_words(text: str, faults: list[str]) -> None:
    assert said(text) == faults


def test_each_branch_of_a_union_is_reported_at_the_value() -> None:
    assert said("either: [1]") == [
        "f:1:1: either: expected a whole number, found a list",
        "f:1:1: either: expected text, found a list",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("'" + "x" * 58 + "'", "found the text", id="short text"),
        pytest.param("'" + "x" * 500 + "'", "found text of 502 characters", id="long text"),
        pytest.param("{a: 1}", "found a mapping", id="a mapping"),
        pytest.param("9" * 100, "found a number of 100 characters", id="a long number"),
        pytest.param("0x" + "f" * 4000, "", id="a number too long to format"),
        pytest.param('"a\\nb"', "found the text 'a\\nb'", id="a line break"),
    ],
)
def test_a_short_value_is_shown(value: str, shown: str) -> None:
    (fault,) = problems(f"simulation: {{servers: {value}}}")
    assert shown in fault
    assert len(fault.splitlines()) == 1


def test_a_value_under_a_secret_key_is_not_shown() -> None:
    assert said("secret_token: hunter2") == ["f:1:1: secret_token: expected a whole number, found text"]


@pytest.mark.parametrize(
    "key", ["apiKey", "api-key", "API_KEY", "client_secret", "db-password", "hf-token", "credentials"]
)
def test_a_label_under_a_secret_key_is_not_shown(key: str) -> None:
    (fault,) = problems(ENDPOINT.format(f"labels: {{{key}: 98765}}"))
    assert "98765" not in fault


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param("plugins: [{name: a}]", ["type"], id="a plugin's type"),
        pytest.param("schedulingProfiles: [{}]", ["name"], id="a profile's name"),
        pytest.param("pool: {endpoints: [{}]}", ["address", "name", "port"], id="all of an endpoint"),
        pytest.param("pool: {endpoints: [{port: 1}]}", ["address", "name"], id="some of an endpoint"),
    ],
)
def test_a_missing_key_is_reported_where_it_is_missing(text: str, keys: list[str]) -> None:
    assert sorted(fault.partition(";")[0].rpartition(": ")[2] for fault in problems(text)) == [
        f"the key {k!r} is missing" for k in keys
    ]


@pytest.mark.parametrize("port", ["x", "0", "70000", "null", "true", "[1]", "8080.0"])
def test_an_invalid_value_is_not_reported_as_missing(port: str) -> None:
    (fault,) = problems(f"pool: {{endpoints: [{{name: a, address: b, port: {port}}}]}}")
    assert "missing" not in fault


def test_missing_values_are_reported_together_with_an_invalid_one() -> None:
    faults = problems("pool: {endpoints: [{port: x}]}")
    assert sorted(fault.rpartition(": ")[2] for fault in faults) == [
        "expected a whole number, found the text 'x'",
        "the key 'address' is missing",
        "the key 'name' is missing",
    ]


def test_invalid_values_are_dropped_and_the_rest_is_used() -> None:
    found = configuration("pool: {scrape: {interval: x, timeout: 3s}}\nshutdown: 5\nsimulation: {servers: 4}").settings
    assert (found.pool.scrape.timeout, found.pool.scrape.interval, found.simulation.servers) == (3.0, 1.0, 4)


def test_all_invalid_items_of_a_list_are_dropped() -> None:
    text = "simulation: {adapters: [1, a, 2, b, 3]}"
    assert configuration(text).settings.simulation.adapters == ("a", "b")
    assert len(problems(text)) == 3


def test_the_remaining_items_keep_their_origins() -> None:
    found = configuration("plugins:\n  - 5\n  - {type: a}\n  - {type: 6}\n  - {type: b}\n")
    assert [p.type for p in found.settings.plugins] == ["a", "b"]
    assert [found.origin("plugins", index).line for index in (0, 1)] == [3, 5]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("apiVersion: llm-d.ai/v1", "1:1: apiVersion: expected llm-d.ai/v1alpha1 or", id="a version"),
        pytest.param("\nkind: Pod", "2:1: kind: expected EndpointPickerConfig, found 'Pod'", id="a kind"),
        pytest.param(
            "apiVersion: inference.networking.x-k8s.io/v1alpha1",
            "1:1: warning: apiVersion: this version is deprecated; use llm-d.ai/v1alpha1", id="the old version",
        ),
    ],
)  # fmt: skip
def test_version_and_kind_are_checked(text: str, fault: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"--config-text:{fault}")


@pytest.mark.parametrize("text", ["", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig"])
def test_version_and_kind_may_be_omitted(text: str) -> None:
    assert not problems(text)
