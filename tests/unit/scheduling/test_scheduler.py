"""The loop over profiles that makes a decision."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.decision import Decision
from app.domain.errors import BadRequestError, PluginError, SaturatedError
from app.domain.named import Named
from app.scheduling.scheduler import Scheduler
from pointsman.testing import make_candidates, make_request
from tests.unit.scheduling.given import FakeProfilePicker, keep, make_profile


def decide(picker: FakeProfilePicker, *, filters: dict[str, Any] | None = None) -> Decision:
    """A decision between `a` and `b`, over the profiles `prefill` and `decode`."""
    kept = filters or {}
    profiles = {name: make_profile(name, filters=kept.get(name, ())) for name in ("prefill", "decode")}
    scheduler = Scheduler(Named("handler", picker), profiles)
    return scheduler.schedule(make_request(), make_candidates("a", "b"))


def test_the_profiles_asked_for_run_and_no_others() -> None:
    assert list(decide(FakeProfilePicker(["decode"])).results) == ["decode"]


def test_profiles_may_run_one_after_the_other() -> None:
    picker = FakeProfilePicker(["decode"], ["prefill"])
    assert (list(decide(picker).results), picker.seen) == (
        ["decode", "prefill"],
        [(), ("decode",), ("decode", "prefill")],
    )


def test_profiles_may_run_in_one_round() -> None:
    assert list(decide(FakeProfilePicker(["decode", "prefill"])).results) == ["decode", "prefill"]


def test_the_profile_picker_concludes() -> None:
    picker = FakeProfilePicker(["decode", "prefill"], conclusion=lambda done: Decision("decode", done))
    assert decide(picker).primary == "decode"


def test_every_profile_sees_all_candidates() -> None:
    decision = decide(FakeProfilePicker(["prefill", "decode"]), filters={"prefill": [keep("a")]})
    assert [endpoint.name for endpoint in decision.results["decode"].endpoints] == ["a", "b"]


def test_a_secondary_profile_may_find_no_endpoint() -> None:
    decision = decide(FakeProfilePicker(["prefill", "decode"]), filters={"prefill": [keep()]})
    assert decision.endpoint.name == "a"


def test_a_primary_profile_without_an_endpoint_is_saturation() -> None:
    with pytest.raises(SaturatedError, match="ruled out"):
        decide(FakeProfilePicker(["decode"]), filters={"decode": [keep()]})


@pytest.mark.parametrize(
    ("rounds", "said"),
    [
        pytest.param([["other"]], "asked for the profile 'other', which does not exist", id="unknown"),
        pytest.param([["decode"], ["decode"]], "asked for the profile 'decode' twice", id="twice, in two rounds"),
        pytest.param([["decode", "decode"]], "asked for the profile 'decode' twice", id="twice, in one round"),
        pytest.param([[]], "asked for no profile", id="none"),
        pytest.param([LookupError("oh")], "LookupError: oh", id="exception"),
        pytest.param([["decode"], LookupError("oh")], "LookupError: oh", id="exception later"),
        pytest.param([5], "", id="no sequence"),
    ],
)
def test_a_profile_picker_s_failure_is_an_error_that_names_it(rounds: list[Any], said: str) -> None:
    with pytest.raises(PluginError, match=f"'handler' failed: .*{said}"):
        decide(FakeProfilePicker(*rounds))


@pytest.mark.parametrize(
    ("conclusion", "said"),
    [
        pytest.param(LookupError("oh"), "LookupError: oh", id="exception"),
        pytest.param(lambda done: Decision("prefill", done), "'prefill' has no result", id="profile that did not run"),
        pytest.param(lambda _: "decode", "", id="no decision"),
    ],
)
def test_a_failing_conclusion_is_an_error_that_names_its_plugin(conclusion: Any, said: str) -> None:
    with pytest.raises(PluginError, match=f"'handler' failed: .*{said}"):
        decide(FakeProfilePicker(["decode"], conclusion=conclusion))


@pytest.mark.parametrize(
    "picker",
    [
        pytest.param(FakeProfilePicker(BadRequestError("no such profile")), id="while picking profiles"),
        pytest.param(FakeProfilePicker(["decode"], conclusion=BadRequestError("no such profile")), id="concluding"),
    ],
)
def test_a_profile_picker_may_refuse_a_request(picker: FakeProfilePicker) -> None:
    with pytest.raises(BadRequestError, match="no such profile"):
        decide(picker)


def test_a_profile_picker_without_a_name_is_called_by_its_class() -> None:
    scheduler = Scheduler(FakeProfilePicker([]), {"default": make_profile()})
    with pytest.raises(PluginError, match="'FakeProfilePicker' failed"):
        scheduler.schedule(make_request(), make_candidates("a"))
