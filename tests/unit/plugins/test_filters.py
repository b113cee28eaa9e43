"""Filters: label selectors and roles."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from plugins.filters.decode import DecodeFilter
from plugins.filters.label_selector import LabelSelectorFilter
from plugins.filters.prefill import PrefillFilter
from pointsman.testing import make_candidates, make_endpoint, make_request
from tests.unit.plugins.given import params_of

GPU = {"gpu": "h100", "zone": "a"}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    plugin = LabelSelectorFilter(params_of(LabelSelectorFilter.Params, selector))
    (kept,) = plugin.filter(make_request(), make_candidates(make_endpoint(labels=labels)))
    return bool(kept)


def expression(operator: str, *values: str, key: str = "gpu") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


@pytest.mark.parametrize(
    ("selector", "labels", "kept"),
    [
        pytest.param({}, {}, True, id="no condition"),
        pytest.param({}, GPU, True, id="no condition with labels"),
        pytest.param({"matchLabels": {"gpu": "h100"}}, GPU, True, id="label has the value"),
        pytest.param({"matchLabels": {"gpu": "a100"}}, GPU, False, id="label has another value"),
        pytest.param({"matchLabels": {"gpu": "h100"}}, {}, False, id="label is missing"),
        pytest.param({"matchLabels": {"gpu": ""}}, {}, False, id="empty value is not a missing label"),
        pytest.param({"matchLabels": {"gpu": ""}}, {"gpu": ""}, True, id="empty value"),
        pytest.param({"matchLabels": {"gpu": "h100", "zone": "b"}}, GPU, False, id="one of two labels"),
        pytest.param(expression("In", "a100", "h100"), GPU, True, id="In with the value"),
        pytest.param(expression("In", "a100"), GPU, False, id="In with another value"),
        pytest.param(expression("In", "h100"), {}, False, id="In without the label"),
        pytest.param(expression("NotIn", "a100"), GPU, True, id="NotIn with another value"),
        pytest.param(expression("NotIn", "a100", "h100"), GPU, False, id="NotIn with the value"),
        pytest.param(expression("NotIn", "h100"), {}, True, id="NotIn without the label"),
        pytest.param(expression("Exists"), GPU, True, id="Exists"),
        pytest.param(expression("Exists"), {"gpu": ""}, True, id="Exists with an empty value"),
        pytest.param(expression("Exists"), {}, False, id="Exists without the label"),
        pytest.param(expression("DoesNotExist"), {}, True, id="DoesNotExist"),
        pytest.param(expression("DoesNotExist"), GPU, False, id="DoesNotExist with the label"),
        pytest.param({"matchLabels": {"zone": "a"}, **expression("In", "h100")}, GPU, True, id="both kinds match"),
        pytest.param(
            {"matchLabels": {"zone": "b"}, **expression("In", "h100")}, GPU, False, id="only one kind matches"
        ),
    ],
)
def test_a_label_selector_selects_as_kubernetes_does(
    selector: dict[str, Any], labels: dict[str, str], kept: bool
) -> None:
    assert selects(selector, labels) is kept


@pytest.mark.parametrize(
    "requirement",
    [
        pytest.param({"key": "gpu", "operator": "Like", "values": ["h100"]}, id="unknown operator"),
        pytest.param({"key": "gpu", "operator": "in", "values": ["h100"]}, id="operator in lower case"),
        pytest.param({"key": "gpu", "operator": "In"}, id="In without values"),
        pytest.param({"key": "gpu", "operator": "NotIn", "values": []}, id="NotIn with no values"),
        pytest.param({"key": "gpu", "operator": "Exists", "values": ["h100"]}, id="Exists with values"),
        pytest.param({"key": "gpu", "operator": "DoesNotExist", "values": ["h100"]}, id="DoesNotExist with values"),
        pytest.param({"key": "", "operator": "Exists"}, id="empty key"),
        pytest.param({"operator": "Exists"}, id="no key"),
        pytest.param({"key": "gpu"}, id="no operator"),
    ],
)
def test_a_condition_that_kubernetes_rejects_is_rejected(requirement: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(LabelSelectorFilter.Params, {"matchExpressions": [requirement]})


def test_the_selector_returns_a_boolean_per_candidate_in_order() -> None:
    candidates = make_candidates(*(make_endpoint(zone, labels={"zone": zone}) for zone in "abc"))
    plugin = LabelSelectorFilter(params_of(LabelSelectorFilter.Params, {"matchLabels": {"zone": "b"}}))
    assert list(plugin.filter(make_request(), candidates)) == [False, True, False]


ROLES = [
    ("decode", True, False),
    ("prefill", False, True),
    ("prefill-decode", True, True),
    ("both", True, True),
    ("encode-prefill-decode", True, True),
    ("encode-prefill", False, True),
    ("encode", False, False),
    ("", False, False),
    ("Decode", False, False),
]


@pytest.mark.parametrize(("role", "decodes", "prefills"), [pytest.param(*row, id=row[0] or "empty") for row in ROLES])
def test_endpoints_are_kept_by_their_role(role: str, decodes: bool, prefills: bool) -> None:
    candidates = make_candidates(make_endpoint(labels={"llm-d.ai/role": role}))
    kept = [list(plugin.filter(make_request(), candidates)) for plugin in (DecodeFilter(), PrefillFilter())]
    assert kept == [[decodes], [prefills]]


def test_an_endpoint_without_a_role_decodes_and_does_not_prefill() -> None:
    candidates = make_candidates(make_endpoint(labels={"role": "prefill"}))
    kept = [list(plugin.filter(make_request(), candidates)) for plugin in (DecodeFilter(), PrefillFilter())]
    assert kept == [[True], [False]]
