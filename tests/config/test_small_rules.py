"""Rules of the configuration that stand alone."""

from __future__ import annotations

import pytest

from app.__main__ import main
from tests.config.given import checked, errors, said

TWO_PROFILES = "schedulingProfiles: [{name: a}, {name: b}]"


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        pytest.param(TWO_PROFILES, [], 0, id="a warning"),
        pytest.param(TWO_PROFILES, ["--strict"], 1, id="a warning, strictly"),
        pytest.param("", ["--strict"], 0, id="no warning, strictly"),
    ],
)
def test_a_strict_check_takes_warnings_for_faults(
    text: str, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--config-text", text, *arguments]) == code
    told = capsys.readouterr()
    assert ("ok: " in told.out, "warning: " in told.err) == (code == 0, bool(text))


def test_a_place_before_one_and_after_another_is_an_error() -> None:
    text = "plugins: [{type: queue-scorer}, {type: decode-filter, before: queue-scorer, after: queue-scorer}]"
    assert errors(text) == [
        "1:77: plugins[1].after: 'after' and 'before' are mutually exclusive; keep one",
    ]


def test_a_disabled_parser_drops_out_of_the_list() -> None:
    text = "plugins: [{type: openai-parser, enabled: false}]\nrequestHandler: {parsers: [%s]}"
    parsers = "{pluginRef: openai-parser}, {pluginRef: passthrough-parser}"
    plan = checked(text % parsers).plan
    assert plan.parsers == ["passthrough-parser"]
    assert "requests are parsed without openai-parser, which is disabled" in plan.notes


@pytest.mark.parametrize(
    ("plugin", "instead"),
    [
        pytest.param(
            "{type: by-label, parameters: {label: a, validValues: [b]}}", "label-selector-filter", id="a type"
        ),
        pytest.param("{type: by-label-selector}", "label-selector-filter", id="an alias"),
    ],
)
def test_a_deprecated_type_works_and_says_what_to_use(plugin: str, instead: str) -> None:
    (told,) = said(f"plugins: [{plugin}]")
    assert told.startswith("1:12: warning: plugins[0].type: the plugin type 'by-label")
    assert told.endswith(f"is deprecated; use {instead}")


@pytest.mark.parametrize("key", ["peerDiscovery: {pluginRef: x}", "crossReplicaSyncInterval: 1s"])
def test_what_only_the_go_pickers_do_is_told_to_do_nothing(key: str) -> None:
    (told,) = said(f"dataLayer: {{{key}}}")
    assert told.startswith("1:13: warning: dataLayer.")
    assert "has no effect" in told


@pytest.mark.parametrize("first", ["filters", "scorers", "plugins", "enabled"])
def test_a_profile_in_place_that_has_no_name_is_not_named_after_its_first_key(first: str) -> None:
    value = "false" if first == "enabled" else "[queue-scorer]"
    told = errors(f"endpointPickingProfiles:\n- {first}: {value}\n  picker: random-picker\n")
    assert "2:3: endpointPickingProfiles[0]: the key 'name' is missing" in told


@pytest.mark.parametrize("address", ["me:hunter2@host", "http://me:hunter2@host:80", "me:hunter2@"])
def test_credentials_in_a_wrong_address_are_not_echoed(address: str) -> None:
    (told,) = errors(f"pool: {{endpoints: [{{name: a, port: 1, address: '{address}'}}]}}")
    assert ("hunter2" in told, told.endswith("found text")) == (False, True)
