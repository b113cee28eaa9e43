"""Profile pickers: the profiles that run, and the result that counts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.extension import BadRequestError
from plugins.profile_pickers.header import HeaderProfileHandler
from plugins.profile_pickers.single import SingleProfileHandler
from pointsman.testing import make_decision, make_request
from tests.unit.plugins.given import params_of

PROFILES = ("fast", "decode", "careful")


def handler(**params: Any) -> HeaderProfileHandler:
    return HeaderProfileHandler(params_of(HeaderProfileHandler.Params, params))


def test_the_single_profile_runs_once() -> None:
    finished = make_decision("a", profile="default").results
    plugin = SingleProfileHandler()
    asked = [list(plugin.pick_profiles(make_request(), ("default",), done)) for done in ({}, finished)]
    assert asked == [["default"], []]


@pytest.mark.parametrize("plugin", [SingleProfileHandler(), handler()], ids=["single", "header"])
def test_the_result_of_the_profile_that_ran_is_the_decision(plugin: Any) -> None:
    finished = make_decision("a", "b", profile="careful").results
    decision = plugin.conclude(make_request(), finished)
    assert (decision.primary, decision.endpoint.name, decision.results) == ("careful", "a", finished)


@pytest.mark.parametrize(
    ("params", "headers", "profile"),
    [
        pytest.param({}, {"EPP-Profile": "fast"}, "fast", id="named"),
        pytest.param({}, {"epp-profile": "  careful "}, "careful", id="named with spaces"),
        pytest.param({}, {}, "decode", id="not named"),
        pytest.param({}, {"EPP-Profile": " "}, "decode", id="named blank"),
        pytest.param({"defaultProfile": "careful"}, {}, "careful", id="not named with a default"),
        pytest.param({"defaultProfile": "careful"}, {"EPP-Profile": "fast"}, "fast", id="named with a default"),
        pytest.param({"headerName": "X-Profile"}, {"x-profile": "fast"}, "fast", id="another header"),
        pytest.param({"headerName": " X-Profile "}, {"x-profile": "fast"}, "fast", id="another header with spaces"),
        pytest.param({"headerName": "X-Profile"}, {"EPP-Profile": "fast"}, "decode", id="only the default header"),
    ],
)
def test_the_profile_is_taken_from_the_header(params: dict[str, Any], headers: dict[str, str], profile: str) -> None:
    asked = handler(**params).pick_profiles(make_request(headers=headers), PROFILES, {})
    assert list(asked) == [profile]


def test_the_default_without_a_decode_profile_is_the_first_one() -> None:
    assert list(handler().pick_profiles(make_request(), ("fast", "careful"), {})) == ["fast"]


def test_no_second_profile_runs() -> None:
    finished = make_decision("a", profile="fast").results
    asked = handler().pick_profiles(make_request(headers={"EPP-Profile": "careful"}), PROFILES, finished)
    assert list(asked) == []


@pytest.mark.parametrize("name", [pytest.param("slow", id="unknown"), pytest.param("Fast", id="in another case")])
def test_a_profile_that_does_not_exist_is_a_bad_request(name: str) -> None:
    with pytest.raises(BadRequestError, match=name):
        handler().pick_profiles(make_request(headers={"EPP-Profile": name}), PROFILES, {})


@pytest.mark.parametrize(
    ("params", "names"),
    [
        pytest.param({}, (), id="none"),
        pytest.param({"defaultProfile": "careful"}, ("careful",), id="the default"),
    ],
)
def test_it_declares_that_it_requires_the_default_profile(params: dict[str, Any], names: tuple[str, ...]) -> None:
    assert HeaderProfileHandler.profile_names(params_of(HeaderProfileHandler.Params, params)) == names


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"headerName": ""}, id="empty header"),
        pytest.param({"headerName": 3}, id="a number as header"),
        pytest.param({"default": "fast"}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(params: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(HeaderProfileHandler.Params, params)
