"""`match-profile-picker`: the profile of the first rule that matches."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.extension import ACTIVE_ADAPTERS, EndpointMetrics, InferenceRequest
from plugins.profile_pickers.match import MatchProfilePicker
from pointsman.testing import FakePool, make_candidates, make_decision, make_request
from tests.unit.plugins.given import params_of

PROFILES = ("usual", "long", "gold")


def loaded(running: str = "", waiting: str = "") -> EndpointMetrics:
    return EndpointMetrics(
        waiting=0.0, running_adapters=frozenset(running.split()), waiting_adapters=frozenset(waiting.split())
    )


def picker(*rules: dict[str, Any], metrics: tuple[EndpointMetrics | None, ...] = (None,), **params: Any) -> Any:
    values = params_of(MatchProfilePicker.Params, {"rules": list(rules), **params})
    names = [f"e{number}" for number in range(len(metrics))]
    return MatchProfilePicker(values, FakePool(make_candidates(*names, metrics=metrics)))


def picked(plugin: MatchProfilePicker, request: InferenceRequest, profiles: tuple[str, ...] = PROFILES) -> list[str]:
    return list(plugin.pick_profiles(request, profiles, {}))


def request_of(path: str = "/v1/chat/completions", tokens: int = 10, **fields: Any) -> InferenceRequest:
    headers = {name.lower(): value for name, value in fields.pop("headers", {}).items()}
    return InferenceRequest("r", path, prompts=(b"x" * 4 * tokens,), headers=headers, **{"model": "demo", **fields})


def matches(condition: dict[str, Any], request: InferenceRequest, *metrics: EndpointMetrics | None) -> bool:
    plugin = picker({"profile": "gold", **condition}, metrics=metrics or (None,))
    return picked(plugin, request) == ["gold"]


# -- one condition


@pytest.mark.parametrize(
    ("patterns", "model", "expected"),
    [
        pytest.param("demo", "demo", True, id="its name"),
        pytest.param("demo", "demo2", False, id="a longer name"),
        pytest.param("demo", "Demo", False, id="another case"),
        pytest.param("demo", "", False, id="none"),
        pytest.param("", "", True, id="an empty pattern matches none"),
        pytest.param("*", "demo", True, id="anything"),
        pytest.param("*", "", True, id="anything matches none"),
        pytest.param("llama-*", "llama-8b", True, id="a prefix"),
        pytest.param("llama-*", "llama", False, id="shorter than the prefix"),
        pytest.param("*-8b", "org/llama-8b", True, id="a suffix across a slash"),
        pytest.param("llama-?b", "llama-8b", True, id="one character"),
        pytest.param("llama-?b", "llama-70b", False, id="two characters for one"),
        pytest.param("llama-[78]b", "llama-7b", True, id="one of two"),
        pytest.param("llama-[78]b", "llama-9b", False, id="none of two"),
        pytest.param("llama-[!78]b", "llama-9b", True, id="any but two"),
        pytest.param("a.b", "axb", False, id="a dot is a dot"),
        pytest.param(["x", "demo"], "demo", True, id="the second of a list"),
        pytest.param(["x", "y*"], "demo", False, id="none of a list"),
    ],
)
def test_a_model_is_matched_by_patterns(patterns: Any, model: str, expected: bool) -> None:
    assert matches({"model": patterns}, request_of(model=model)) is expected


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        pytest.param("/v1/chat/completions", "/v1/chat/completions", True, id="the path"),
        pytest.param("/v1/chat/*", "/v1/chat/completions", True, id="below"),
        pytest.param("/v1/*", "/v1/chat/completions", True, id="two levels below"),
        pytest.param("/v1/chat/*", "/v1/completions", False, id="another path"),
        pytest.param("chat/*", "/v1/chat/completions", False, id="a suffix without a wildcard"),
        pytest.param(["*/embeddings", "*/responses"], "/v1/responses", True, id="a list"),
    ],
)
def test_a_path_is_matched_by_patterns(patterns: Any, path: str, expected: bool) -> None:
    assert matches({"path": patterns}, request_of(path)) is expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"min": 10}, {9: False, 10: True, 11: True, 100_000: True}, id="from ten"),
        pytest.param({"max": 10}, {0: True, 9: True, 10: True, 11: False}, id="up to ten"),
        pytest.param({"min": 5, "max": 10}, {4: False, 5: True, 10: True, 11: False}, id="five to ten"),
        pytest.param({"min": 7, "max": 7}, {6: False, 7: True, 8: False}, id="exactly seven"),
        pytest.param({"max": 0}, {0: True, 1: False}, id="zero"),
        pytest.param({}, {0: True, 5: True}, id="any"),
    ],
)
def test_prompt_tokens_are_matched_by_an_inclusive_range(bounds: dict[str, int], expected: dict[int, bool]) -> None:
    assert {n: matches({"promptTokens": bounds}, request_of(tokens=n)) for n in expected} == expected


def test_prompt_tokens_are_four_bytes_each_rounded_up_per_prompt() -> None:
    request = InferenceRequest("r", "/v1/completions", model="demo", prompts=(b"x" * 5, b"x" * 5))
    assert [matches({"promptTokens": {"min": n, "max": n}}, request) for n in (3, 4)] == [False, True]


@pytest.mark.parametrize(
    ("wanted", "headers", "expected"),
    [
        pytest.param({"x-tenant": "gold"}, {"x-tenant": "gold"}, True, id="the value"),
        pytest.param({"X-Tenant": "gold"}, {"x-tenant": "gold"}, True, id="upper case in the rule"),
        pytest.param({"x-tenant": "gold"}, {"X-TENANT": "gold"}, True, id="upper case in the request"),
        pytest.param({"x-tenant": "gold"}, {"x-tenant": "Gold"}, False, id="the value's case counts"),
        pytest.param({"x-tenant": "gold"}, {}, False, id="missing"),
        pytest.param({"x-tenant": "*"}, {}, False, id="anything is not missing"),
        pytest.param({"x-tenant": "*"}, {"x-tenant": ""}, True, id="anything matches empty"),
        pytest.param({"x-tenant": "g*"}, {"x-tenant": "gold"}, True, id="pattern"),
        pytest.param({"x-tenant": ["tin", "gold"]}, {"x-tenant": "gold"}, True, id="list"),
        pytest.param({"x-tenant": "gold", "x-b": "1"}, {"x-tenant": "gold"}, False, id="one of two"),
        pytest.param({"x-tenant": "gold", "x-b": "1"}, {"x-tenant": "gold", "x-b": "1"}, True, id="two of two"),
    ],
)
def test_headers_are_matched_by_patterns(wanted: dict[str, Any], headers: dict[str, str], expected: bool) -> None:
    assert matches({"headers": wanted}, request_of(headers=headers)) is expected


@pytest.mark.parametrize(
    ("pattern", "fields", "metrics", "expected"),
    [
        pytest.param("sql", {"adapter": "sql"}, [None], True, id="adapter"),
        pytest.param("sql", {"adapter": "math"}, [loaded("sql")], False, id="another adapter"),
        pytest.param("sql", {"model": "sql"}, [None], False, id="a model that is no adapter"),
        pytest.param("sql", {"model": "sql"}, [loaded("sql")], True, id="a model that is a running adapter"),
        pytest.param("sql", {"model": "sql"}, [loaded("", "sql")], True, id="a model that is a waiting adapter"),
        pytest.param(
            "sql",
            {"model": "sql"},
            [None, loaded(), loaded("chat sql")],
            True,
            id="an adapter of one of many endpoints",
        ),
        pytest.param("sql", {"model": "sql"}, [loaded("chat")], False, id="a model while there are other adapters"),
        pytest.param("*", {}, [loaded("chat")], False, id="anything but no adapter"),
        pytest.param("*", {"adapter": "sql"}, [None], True, id="anything and an adapter"),
        pytest.param("*", {"model": "chat"}, [loaded("chat")], True, id="anything and a model that is an adapter"),
        pytest.param("*", {"model": ""}, [loaded("chat")], False, id="anything but no model"),
        pytest.param("s?l", {"adapter": "sql"}, [None], True, id="pattern"),
        pytest.param(["math", "sql"], {"adapter": "sql"}, [None], True, id="list"),
    ],
)
def test_an_adapter_is_requested_by_name_or_as_a_model_that_is_an_adapter(
    pattern: Any, fields: dict[str, Any], metrics: list[EndpointMetrics | None], expected: bool
) -> None:
    assert matches({"adapter": pattern}, request_of(**fields), *metrics) is expected


def test_every_condition_of_a_rule_must_match() -> None:
    rule = {
        "model": "demo",
        "path": "/v1/*",
        "adapter": "sql",
        "promptTokens": {"min": 5},
        "headers": {"X-Tenant": "gold"},
    }
    good: dict[str, Any] = {"path": "/v1/x", "tokens": 5, "adapter": "sql", "headers": {"x-tenant": "gold"}}
    worse = [{"model": "other"}, {"path": "/v2/x"}, {"adapter": "math"}, {"tokens": 4}, {"headers": {}}]
    assert matches(rule, request_of(**good))
    assert [matches(rule, request_of(**{**good, **one})) for one in worse] == [False] * 5


# -- several rules


@pytest.mark.parametrize(
    ("tokens", "model", "profile"),
    [
        pytest.param(50, "gold-8b", "long", id="the first of two that match"),
        pytest.param(5, "gold-8b", "gold", id="the second"),
        pytest.param(5, "demo", "usual", id="none"),
    ],
)
def test_the_first_rule_that_matches_is_used(tokens: int, model: str, profile: str) -> None:
    plugin = picker({"profile": "long", "promptTokens": {"min": 50}}, {"profile": "gold", "model": "gold-*"})
    assert picked(plugin, request_of(tokens=tokens, model=model)) == [profile]


def test_two_rules_may_have_the_same_profile() -> None:
    plugin = picker({"profile": "gold", "model": "a"}, {"profile": "gold", "model": "b"})
    assert [picked(plugin, make_request(model=model)) for model in "abc"] == [["gold"], ["gold"], ["usual"]]


@pytest.mark.parametrize(
    ("params", "profile"),
    [pytest.param({}, "usual", id="the first"), pytest.param({"default": "long"}, "long", id="the configured one")],
)
def test_the_default_profile_runs_if_no_rule_matches(params: dict[str, Any], profile: str) -> None:
    assert picked(picker(**params), make_request()) == [profile]
    assert picked(picker({"profile": "gold", "model": "x"}, **params), make_request()) == [profile]


def test_no_second_profile_runs() -> None:
    finished = make_decision("a", profile="usual").results
    plugin = picker({"profile": "gold", "model": "*"})
    assert list(plugin.pick_profiles(make_request(), PROFILES, finished)) == []


def test_the_result_of_the_profile_that_ran_is_the_decision() -> None:
    finished = make_decision("a", "b", profile="gold").results
    decision = picker().conclude(make_request(), finished)
    assert (decision.primary, decision.endpoint.name, decision.results) == ("gold", "a", finished)


# -- parameters


@pytest.mark.parametrize(
    ("params", "names"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"default": "long"}, ("long",), id="the default"),
        pytest.param({"rules": [{"profile": "gold", "model": "x"}]}, ("gold",), id="a rule's"),
        pytest.param(
            {"rules": [{"profile": p, "model": "x"} for p in ("gold", "long", "gold")], "default": "long"},
            ("gold", "long"),
            id="each once",
        ),
    ],
)
def test_it_declares_the_profiles_that_it_requires(params: dict[str, Any], names: tuple[str, ...]) -> None:
    assert MatchProfilePicker.profile_names(params_of(MatchProfilePicker.Params, params)) == names


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"profile": "gold"}, id="no condition"),
        pytest.param({"profile": "gold", "headers": {}}, id="no header"),
        pytest.param({"profile": "gold", "model": None}, id="a condition of null"),
        pytest.param({"model": "x"}, id="no profile"),
        pytest.param({"profile": "", "model": "x"}, id="empty profile"),
        pytest.param({"profile": "gold", "model": 5}, id="model as a number"),
        pytest.param({"profile": "gold", "model": ["x", 5]}, id="a number in a list"),
        pytest.param({"profile": "gold", "headers": {"x": 1}}, id="header as a number"),
        pytest.param({"profile": "gold", "headers": ["x"]}, id="headers as a list"),
        pytest.param({"profile": "gold", "promptTokens": 5}, id="range as a number"),
        pytest.param({"profile": "gold", "promptTokens": {"min": -1}}, id="negative length"),
        pytest.param({"profile": "gold", "promptTokens": {"min": 6, "max": 5}}, id="reversed range"),
        pytest.param({"profile": "gold", "promptTokens": {"min": "6"}}, id="length as text"),
        pytest.param({"profile": "gold", "promptTokens": {"from": 6}}, id="unknown key of a range"),
        pytest.param({"profile": "gold", "modell": "x"}, id="unknown condition"),
    ],
)
def test_an_invalid_rule_is_rejected(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(MatchProfilePicker.Params, {"rules": [rule]})


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"rules": {"profile": "gold", "model": "x"}}, id="a rule without a list"),
        pytest.param({"default": 5}, id="default as a number"),
        pytest.param({"defaultProfile": "gold"}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(MatchProfilePicker.Params, values)


def test_it_wants_the_adapters_and_does_not_need_them() -> None:
    assert ACTIVE_ADAPTERS in MatchProfilePicker.wants
    assert not hasattr(MatchProfilePicker, "needs")
