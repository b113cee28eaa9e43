"""`by-label`: keeps endpoints by the value of one label."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.extension.marker import mark_of
from plugins.filters.by_label import ByLabel
from pointsman.testing import make_candidates, make_endpoint, make_request
from tests.unit.plugins.given import params_of

GOLD = {"label": "pool", "validValues": ["gold"]}


def keeps(params: dict[str, Any], labels: dict[str, str]) -> bool:
    plugin = ByLabel(params_of(ByLabel.Params, params))
    (kept,) = plugin.filter(make_request(), make_candidates(make_endpoint(labels=labels)))
    return bool(kept)


@pytest.mark.parametrize(
    ("params", "labels", "kept"),
    [
        pytest.param(GOLD, {"pool": "gold"}, True, id="the value"),
        pytest.param(GOLD, {"pool": "tin"}, False, id="another value"),
        pytest.param(GOLD, {"pool": "Gold"}, False, id="another case"),
        pytest.param(GOLD, {"pool": ""}, False, id="empty value"),
        pytest.param(GOLD, {}, False, id="no label"),
        pytest.param(GOLD, {"zone": "gold"}, False, id="the value of another label"),
        pytest.param({**GOLD, "validValues": ["tin", "gold"]}, {"pool": "gold"}, True, id="the second value"),
        pytest.param({**GOLD, "allowsNoLabel": True}, {}, True, id="no label if allowed"),
        pytest.param({**GOLD, "allowsNoLabel": True}, {"pool": "gold"}, True, id="the value if no label is allowed"),
        pytest.param(
            {**GOLD, "allowsNoLabel": True}, {"pool": "tin"}, False, id="another value if no label is allowed"
        ),
        pytest.param({**GOLD, "allowsNoLabel": True}, {"pool": ""}, False, id="an empty value is not a missing label"),
        pytest.param({"label": "pool", "allowsNoLabel": True}, {}, True, id="no label if only that is allowed"),
        pytest.param(
            {"label": "pool", "allowsNoLabel": True}, {"pool": "gold"}, False, id="a value if only no label is allowed"
        ),
        pytest.param({**GOLD, "validValues": [""]}, {}, True, id="no label if the empty value is valid"),
        pytest.param({**GOLD, "validValues": [""]}, {"pool": ""}, True, id="an empty value if it is valid"),
        pytest.param(
            {**GOLD, "validValues": [""]}, {"pool": "gold"}, False, id="a value if only the empty one is valid"
        ),
    ],
)
def test_an_endpoint_with_a_valid_value_is_kept(params: dict[str, Any], labels: dict[str, str], kept: bool) -> None:
    assert keeps(params, labels) is kept


def test_it_returns_a_boolean_per_candidate_in_order() -> None:
    candidates = make_candidates(*(make_endpoint(pool, labels={"pool": pool}) for pool in ("tin", "gold", "zinc")))
    assert list(ByLabel(params_of(ByLabel.Params, GOLD)).filter(make_request(), candidates)) == [False, True, False]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"validValues": ["gold"]}, id="no label"),
        pytest.param({"label": "", "validValues": ["gold"]}, id="empty label"),
        pytest.param({"label": "pool"}, id="no values"),
        pytest.param({"label": "pool", "validValues": []}, id="empty values"),
        pytest.param({"label": "pool", "validValues": [], "allowsNoLabel": False}, id="keeps no endpoint"),
        pytest.param({"label": "pool", "validValues": "gold"}, id="values as text"),
        pytest.param({"label": "pool", "validValues": [1]}, id="a number as value"),
        pytest.param({**GOLD, "allowsNoLabel": "true"}, id="text for a boolean"),
        pytest.param({**GOLD, "matchLabels": {}}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(ByLabel.Params, values)


def test_it_is_deprecated_in_favour_of_the_label_selector() -> None:
    mark = mark_of(ByLabel)
    assert mark is not None
    assert dict(mark.deprecated) == {"by-label": "label-selector-filter"}
