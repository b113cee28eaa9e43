"""What `check` says of configurations that are wrong: where, what, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings.errors import ConfigurationError
from app.settings.layers import Sources
from containers.application import check

from .given import checked, errors, faults_of, said

TWO_PROFILES = "schedulingProfiles: [{name: d}, {name: e}]"
PROFILE = """\
plugins:
  - type: {type}
schedulingProfiles:
  - name: d
    plugins:
      - pluginRef: {type}
        {entry}
"""
PARAMETERS = """\
plugins:
  - type: {type}
    parameters:
      {parameters}
"""
ENDPOINT = """\
pool:
  endpoints:
    - name: a
      address: 10.0.0.1
      port: {port}
"""
REFERS = """
from __future__ import annotations
from pointsman import PluginParams, PluginRef, Scorer

class Refers:
    class Params(PluginParams):
        other: PluginRef[Scorer]

    def __init__(self, params: Params) -> None:
        self.params = params

    def score(self, request, candidates):
        return self.params.other.score(request, candidates)
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            "plugins:\n  - type: queue-scorr\n",
            "2:5: plugins[0].type: unknown plugin type 'queue-scorr'; did you mean 'queue-scorer'?",
            id="a plugin type with a slip",
        ),
        pytest.param(
            "plugins:\n  - name: q\n    type: Queue-Scorer\n",
            "3:5: plugins[0].type: unknown plugin type 'Queue-Scorer'; did you mean 'queue-scorer'?",
            id="a plugin type in capitals",
        ),
        pytest.param(
            PARAMETERS.format(type="max-score-picker", parameters="maxNumEndpoint: 2"),
            "4:7: plugins[0].parameters.maxNumEndpoint: unknown key 'maxNumEndpoint'; did you mean 'maxNumOfEndpoints'?",
            id="an unknown parameter",
        ),
        pytest.param(
            "plugins:\n  - type: max-score-picker\n    parameters: [1]\n",
            "3:5: plugins[0].parameters: expected a mapping, found a list", id="parameters that are a list",
        ),
        pytest.param(
            "plugins:\n  - type: queue-scorer\n    parameters: [1]\n",
            "3:5: plugins[0].parameters: expected a mapping, found a list", id="a list for a plugin without parameters",
        ),
        pytest.param(
            "plugins:\n  - type: max-score-picker\n    parameters: fast\n",
            "3:5: plugins[0].parameters: expected a mapping, found the text 'fast'", id="parameters that are text",
        ),
        pytest.param("plugins:\n  - name: x\n", "2:5: plugins[0]: the key 'type' is missing", id="no type"),
        pytest.param("plugins: [queue-scorer]", "1:11: plugins[0]: expected a mapping, found the text", id="a bare type"),
        pytest.param("plugins: {type: x}", "1:1: plugins: expected a list, found a mapping", id="plugins as a mapping"),
        pytest.param("plugins:\n  - type: 5\n", "2:5: plugins[0].type: expected text, found 5; quote it", id="a number as type"),
        pytest.param("plugins:\n  - type: ''\n", "2:5: plugins[0].type: expected non-empty text", id="an empty type"),
        pytest.param(
            "schedulingProfiles:\n  - plugins: []\n", "2:5: schedulingProfiles[0]: the key 'name' is missing", id="no name"
        ),
        pytest.param(
            "schedulingProfiles:\n  - name: d\n    plugins:\n      - weight: 10\n",
            "4:9: schedulingProfiles[0].plugins[0]: the key 'pluginRef' is missing", id="no pluginRef",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}, {type: queue-scorer}]",
            "1:33: plugins[1]: duplicate name 'queue-scorer' in this list; first at --config-text:1:11", id="a name twice",
        ),
        pytest.param(
            "plugins: [{name: a, type: single-profile-handler}, {name: b, type: header-profile-handler}]",
            "1:52: plugins[1]: there are several profile pickers: 'a' and 'b'; keep one", id="two profile pickers",
        ),
        pytest.param(
            f"plugins: [{{type: single-profile-handler}}]\n{TWO_PROFILES}\n",
            "1:11: plugins[0]: single-profile-handler takes only one profile, but there are 2: d, e; use header-profile",
            id="two profiles and a picker for one",
        ),
        pytest.param(
            f"plugins: [{{type: header-profile-handler, parameters: {{defaultProfile: f}}}}]\n{TWO_PROFILES}\n",
            "1:11: plugins[0]: 'header-profile-handler' needs the profile 'f'; the profiles are d, e", id="a default profile that is not there",
        ),
        pytest.param(
            "schedulingProfiles: [{name: d, enabled: false}]",
            "1:1: schedulingProfiles: every profile is disabled; at least one must be enabled", id="every profile disabled",
        ),
        pytest.param("apiVersion: llm-d.ai/v1", "1:1: apiVersion: expected llm-d.ai/v1alpha1 or", id="an unknown version"),
        pytest.param("kind: Pod", "1:1: kind: expected EndpointPickerConfig, found 'Pod'", id="another kind"),
        pytest.param("bogus: 1", "1:1: bogus: unknown key 'bogus'; ", id="an unknown key at the top"),
        pytest.param(
            "plugins: [{type: max-score-picker, params: {}}]",
            "1:36: plugins[0].params: unknown key 'params'; did you mean 'parameters'?", id="params for parameters",
        ),
        pytest.param("scrape: {interval: 1s}", "1:1: scrape: unknown key 'scrape'; 'scrape' belongs in pool", id="a key too high"),
        pytest.param(
            "transports:\n  http:\n    bodyBytes: 1Ki\n",
            "3:5: transports.http.bodyBytes: unknown key 'bodyBytes'; 'bodyBytes' belongs in transports.http.limits",
            id="a key in the wrong section",
        ),
        pytest.param(
            "plugins:\n  - type: queue-scorer\n    weight: 2\n",
            "3:5: plugins[0].weight: unknown key 'weight'; 'weight' belongs in schedulingProfiles[].plugins[]",
            id="a weight where it does not belong",
        ),
        pytest.param(
            "pool: {endpoints: [{name: a, address: b, port: 1, engine: vlm}]}",
            "1:51: pool.endpoints[0].engine: unknown engine 'vlm'; did you mean 'vllm'?", id="an unknown engine",
        ),
        pytest.param(
            "parser: {pluginRef: nope}", "1:10: parser.pluginRef: no plugin is named 'nope'",
            id="a parser",
        ),
        pytest.param(
            "requestHandler: {parsers: [{pluginRef: a}]}", "1:29: requestHandler.parsers[0].pluginRef: no plugin is named 'a'",
            id="parsers",
        ),
        pytest.param(
            "saturationDetector: {pluginRef: nope}", "1:22: saturationDetector.pluginRef: no plugin is named 'nope'",
            id="a detector that is not there",
        ),
        pytest.param(
            "dataLayer: {sources: [{pluginRef: nope}]}", "1:24: dataLayer.sources[0].pluginRef: no plugin is named 'nope'",
            id="a source that is not there",
        ),
        pytest.param(
            "plugins: [{type: queue-scorer}]\ndataLayer: {sources: [{pluginRef: queue-scorer}]}",
            "2:24: dataLayer.sources[0].pluginRef: a source must be a MetricsSource, but 'queue-scorer' is not",
            id="a source that is none",
        ),
        pytest.param(
            "dataLayer: {discovery: {pluginRef: nope}}", "1:25: dataLayer.discovery.pluginRef: no plugin is named 'nope'",
            id="a discovery that is not there",
        ),
        pytest.param(
            "plugins: [{type: file-discovery, parameters: {path: /no/such.yaml}}]\ndataLayer: {discovery: {pluginRef: file-discovery}}",
            "1:11: plugins[0]: no endpoints: ", id="a file that is not there",
        ),
    ],
)  # fmt: skip
def test_one_mistake_is_one_error_at_its_place_with_a_hint(text: str, fault: str) -> None:
    (found,) = errors(text)
    assert found.startswith(fault)


# -- values


@pytest.mark.parametrize(
    ("port", "message"),
    [
        pytest.param("0", "expected a number from 1 to 65535, found 0", id="zero"),
        pytest.param("70000", "expected a number from 1 to 65535, found 70000", id="too large"),
        pytest.param("x", "expected a whole number, found the text 'x'", id="text"),
        pytest.param("'8000'", "expected a whole number, found the text '8000'", id="a number in quotes"),
        pytest.param("8000.0", "expected a whole number, found 8000.0", id="a fraction"),
        pytest.param("true", "expected a whole number, found the boolean true", id="true"),
        pytest.param("null", "expected a whole number, found nothing", id="nothing"),
        pytest.param("[8000]", "expected a whole number, found a list", id="a list"),
    ],
)
def test_a_wrong_port_is_one_error(port: str, message: str) -> None:
    assert errors(ENDPOINT.format(port=port)) == [f"5:7: pool.endpoints[0].port: {message}"]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        pytest.param("-1", "expected a number of at least 0, found -1", id="negative"),
        pytest.param(".nan", "expected a finite number, found nan", id="not a number"),
        pytest.param(".inf", "expected a finite number, found inf", id="infinite"),
        pytest.param("-.inf", "expected a finite number, found -inf", id="minus infinity"),
        pytest.param("1e400", "expected a finite number, found inf", id="larger than floats go"),
        pytest.param("true", "expected a number, found the boolean true", id="true"),
        pytest.param("'1'", "expected a number, found the text '1'", id="a number in quotes"),
        pytest.param("heavy", "expected a number, found the text 'heavy'", id="text"),
        pytest.param("[1]", "expected a number, found a list", id="a list"),
    ],
)
def test_a_wrong_weight_is_one_error(weight: str, message: str) -> None:
    text = PROFILE.format(type="queue-scorer", entry=f"weight: {weight}")
    assert errors(text) == [f"7:9: schedulingProfiles[0].plugins[0].weight: {message}"]


@pytest.mark.parametrize(
    ("weight", "number"), [("0", 0.0), ("2", 2.0), ("0.5", 0.5), ("1e3", 1000.0), ("null", 1.0), ("022", 22.0)]
)
def test_a_right_weight_is_taken(weight: str, number: float) -> None:
    plan = checked(PROFILE.format(type="queue-scorer", entry=f"weight: {weight}")).plan
    assert plan.profiles[0].scorers == [("queue-scorer", number)]


@pytest.mark.parametrize(
    ("type", "parameter", "message"),
    [
        pytest.param("approx-prefix-cache-producer", "blockSizeTokens: 0", "expected a number from 1 to 65536, found 0", id="a block of nothing"),
        pytest.param("approx-prefix-cache-producer", "blockSizeTokens: 1.5", "expected a whole number, found 1.5", id="half a token"),
        pytest.param("approx-prefix-cache-producer", "blockSizeTokens: .nan", "expected a whole number, found nan", id="not a number"),
        pytest.param(
            "approx-prefix-cache-producer", f"lruCapacityPerServer: {2**70}",
            f"expected a number from 1 to 100000000, found {2**70}", id="a capacity beyond all memory",
        ),
        pytest.param("approx-prefix-cache-producer", "autoTune: yes", "expected true or false, found the text 'yes'", id="yes"),
        pytest.param("approx-prefix-cache-producer", "autoTune: 1", "expected true or false, found 1", id="one for true"),
        pytest.param("active-request-scorer", "idleThreshold: '3'", "expected a whole number, found the text '3'", id="a threshold in quotes"),
        pytest.param("active-request-scorer", "idleThreshold: low", "expected a whole number, found the text 'low'", id="a threshold in words"),
        pytest.param("active-request-scorer", "idleThreshold: -1", "expected a number of at least 0, found -1", id="a negative threshold"),
        pytest.param("active-request-scorer", "maxBusyScore: 1.5", "expected a number from 0 to 1, found 1.5", id="a score above one"),
        pytest.param("active-request-scorer", "maxBusyScore: .inf", "expected a finite number, found inf", id="an infinite score"),
        pytest.param("metrics-data-source", "scheme: htps", "expected 'http' or 'https', found the text 'htps'; did you mean 'https'?", id="a slip"),
        pytest.param("metrics-data-source", "interval: 5", "expected a duration such as 250ms, 1.5s or 1h30m, found 5", id="no unit"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_one_error_at_its_place(type: str, parameter: str, message: str) -> None:  # noqa: A002
    (found,) = errors(PARAMETERS.format(type=type, parameters=parameter))
    key = parameter.partition(":")[0]
    assert found == f"4:7: plugins[0].parameters.{key}: {message}"


def test_all_wrong_parameters_of_a_plugin_are_told() -> None:
    text = PARAMETERS.format(type="active-request-scorer", parameters="{idleThreshold: x, maxBusyScore: 2, foo: 1}")
    assert [fault.split(":")[1] for fault in errors(text)] == ["8", "26", "43"]


@pytest.mark.parametrize("digits", ["9" * 4200, "9" * 3500, "0x" + "f" * 4200, "0x" + "f" * 3600], ids=len)
def test_a_number_of_thousands_of_digits_is_an_error_like_any_other(digits: str) -> None:
    (found,) = errors(f"transports: {{http: {{port: {digits}}}}}")
    assert found.startswith("1:21: transports.http.port: expected a")


@pytest.mark.parametrize("depth", [90, 150, 260, 330, 450, 2000])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ("{a: ", "}")], ids=["lists", "mappings"])
@pytest.mark.parametrize("key", ["featureGates", "plugins", "pool", "plugins: [{type: my:X, parameters"])
def test_deep_nesting_is_an_error_like_any_other(key: str, start: str, end: str, depth: int) -> None:
    close = "}]" if "[" in key else ""
    assert errors(f"{key}: {start * depth}1{end * depth}{close}")


# -- plugins and profiles


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("plugins: [{type: max-score-picker}, {type: random-picker}]", id="in the profile of all plugins"),
        pytest.param(
            "plugins: [{type: max-score-picker}, {type: random-picker}]\n"
            "schedulingProfiles: [{name: default, plugins: [{pluginRef: max-score-picker}, {pluginRef: random-picker}]}]",
            id="in a profile that lists them",
        ),
    ],
)  # fmt: skip
def test_two_pickers_in_a_profile_are_an_error(text: str) -> None:
    (found,) = errors(text)
    assert found.endswith("the profile 'default' has several pickers: 'max-score-picker' and 'random-picker'; keep one")


def test_two_pickers_in_two_profiles_are_fine() -> None:
    text = """
plugins: [{type: max-score-picker}, {type: random-picker}, {type: header-profile-handler}]
schedulingProfiles:
  - {name: a, plugins: [{pluginRef: max-score-picker}]}
  - {name: b, plugins: [{pluginRef: random-picker}]}
"""
    assert [profile.picker for profile in checked(text).plan.profiles] == ["max-score-picker", "random-picker"]


def test_the_only_configured_picker_is_that_of_profiles_without_one() -> None:
    text = "plugins: [{name: mine, type: random-picker}]\nschedulingProfiles: [{name: a}]"
    assert checked(text).plan.profiles[0].picker == "mine"


def test_without_a_configured_picker_the_highest_score_wins() -> None:
    assert checked("schedulingProfiles: [{name: a}]").plan.profiles[0].picker == "max-score-picker"


def test_several_profiles_without_a_profile_picker_are_a_warning() -> None:
    (found,) = said(TWO_PROFILES)
    assert found.startswith("1:1: warning: schedulingProfiles: there are several profiles but no profile picker: ")
    assert checked(TWO_PROFILES).plan.profile_picker == "header-profile-handler"


def test_a_reference_to_no_plugin_is_an_error_with_a_hint() -> None:
    text = PROFILE.format(type="queue-scorer", entry="weight: 1").replace("Ref: queue-scorer", "Ref: queue-score")
    (found,) = errors(text)
    assert found == (
        "6:9: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named 'queue-score'; "
        "did you mean 'queue-scorer'?"
    )


def test_a_reference_to_a_plugin_with_an_error_is_no_error_of_its_own() -> None:
    text = PROFILE.format(type="queue-scorr", entry="weight: 1")
    assert [fault.split(":")[0] for fault in errors(text)] == ["2"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        pytest.param("{name: o, type: queue-scorer, enabled: false}", "which is disabled", id="disabled"),
        pytest.param("{name: x, type: queue-scorer}", "no plugin is named 'o'", id="missing"),
        pytest.param("{name: o, type: decode-filter}", "must be a Scorer, but 'o' is not", id="of another kind"),
    ],
)
def test_a_parameter_that_names_a_plugin_is_checked(tmp_path: Path, other: str, message: str) -> None:
    path = tmp_path / "refers.py"
    path.write_text(REFERS, encoding="utf-8")
    (found,) = errors(f"plugins:\n  - type: {path}:Refers\n    parameters: {{other: o}}\n  - {other}\n")
    assert found.startswith("3:")
    assert message in found


def test_an_entry_of_a_disabled_plugin_drops_out_and_is_noted() -> None:
    text = PROFILE.format(type="queue-scorer", entry="weight: 1").replace(
        "scorer\nsched", "scorer\n    enabled: false\nsched"
    )
    assert not said(text)
    assert "the profile d runs without queue-scorer, which is disabled" in checked(text).plan.notes


@pytest.mark.parametrize("type", ["max-score-picker", "decode-filter"])
def test_a_weight_on_what_is_no_scorer_is_a_warning(type: str) -> None:  # noqa: A002
    (found,) = said(PROFILE.format(type=type, entry="weight: 2"))
    assert (
        found
        == f"7:9: warning: schedulingProfiles[0].plugins[0].weight: {type!r} is not a scorer: its weight has no effect"
    )


def test_a_misplaced_kind_in_a_profile_is_a_warning() -> None:
    (found,) = said(PROFILE.format(type="single-profile-handler", entry="enabled: true"))
    assert found.startswith(
        "6:9: warning: schedulingProfiles[0].plugins[0].pluginRef: 'single-profile-handler' has no effect"
    )


def test_a_scorer_that_no_profile_lists_is_a_warning() -> None:
    (found,) = said("plugins:\n  - type: queue-scorer\nschedulingProfiles: [{name: d}]")
    assert found == "2:5: warning: plugins[0]: the plugin 'queue-scorer' is in no profile and never runs"


def test_without_profiles_every_scorer_is_used() -> None:
    assert not said("plugins: [{type: queue-scorer}, {type: decode-filter}]")


def test_an_endpoint_list_and_a_discovery_do_not_go_together(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("endpoints: []", encoding="utf-8")
    text = f"plugins: [{{type: file-discovery, parameters: {{path: {path}}}}}]\ndataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n"
    (found,) = errors(text + ENDPOINT.format(port=1))
    assert found.startswith("4:3: pool.endpoints: the pool has both static endpoints and a discovery plugin")


# -- feature gates: the table R8 to R15 of the Go pickers


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        pytest.param("[unknown-gate]", "unknown feature gate 'unknown-gate'", id="R8 an unknown gate"),
        pytest.param(
            "['flowControl=qwerty']", "expected flowControl=true or flowControl=false, found", id="R9 no boolean"
        ),
        pytest.param("['flowControl= TRUE ']", "this version has no flow control", id="R10 true with spaces"),
        pytest.param("[' flowControl']", "unknown feature gate ' flowControl'", id="R11 a name with a space"),
        pytest.param(
            "[flowcontrol]", "unknown feature gate 'flowcontrol'; did you mean 'flowControl'?", id="other case"
        ),
        pytest.param("[flowControl]", "this version has no flow control", id="a bare name is true"),
        pytest.param(
            "['flowControl=false', flowControl]", "this version has no flow control", id="the last one is true"
        ),
        pytest.param(
            "['flowControl=qwerty', 'flowControl=false']",
            "expected flowControl=true or flowControl=false, found",
            id="no boolean in an earlier mention",
        ),
        pytest.param("['flowControl=']", "expected flowControl=true or flowControl=false, found", id="no value"),
    ],
)
def test_a_wrong_feature_gate_is_one_error(gates: str, message: str) -> None:
    (found,) = errors(f"featureGates: {gates}")
    assert message in found


@pytest.mark.parametrize(
    "gates",
    [
        pytest.param("[flowControl, 'flowControl=false']", id="R12 the last one wins"),
        pytest.param("['haPopulateNonLeaderDatastore=false']", id="R14 the other gate"),
        pytest.param("[haPopulateNonLeaderDatastore]", id="the other gate alone"),
        pytest.param("['flowControl= F ']", id="false in short"),
        pytest.param("['flowControl=0']", id="zero is false"),
        pytest.param("[]", id="R15 none"),
    ],
)
def test_a_right_feature_gate_is_no_error(gates: str) -> None:
    assert not errors(f"featureGates: {gates}")


# -- the whole


FIVE = """\
kind: EndpointPickerConfig
plugins:
  - type: queue-scorr
  - type: max-score-picker
    parameters:
      maxNumOfEndpoints: 0
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: max-score-picker
        weigth: 3
pool:
  scrape:
    interval: soon
  endpoints:
    - {name: a, address: 10.0.0.1, port: 99999}
"""


def test_five_mistakes_in_one_file_are_all_told_at_once() -> None:
    assert [":".join(fault.split(":")[:2]) for fault in errors(FIVE)] == ["3:5", "6:7", "11:9", "14:5", "16:36"]


def test_each_of_five_mistakes_says_what_is_wrong() -> None:
    messages = ["unknown plugin type", "of at least 1", "unknown key 'weigth'", "expected a duration", "to 65535"]
    assert all(message in fault for message, fault in zip(messages, errors(FIVE), strict=True))


def test_mistakes_in_two_files_are_told_by_file(tmp_path: Path) -> None:
    paths = tmp_path / "a.yaml", tmp_path / "b.yaml"
    paths[0].write_text("pool: {scrape: {interval: x}}\nplugins: [{type: x}]\n", encoding="utf-8")
    paths[1].write_text("bogus: 1\nshutdown: {delay: x}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as error:
        check(Sources([str(path) for path in paths]))
    assert [f"{Path(f.origin.source).name}:{f.origin.line}" for f in error.value.faults] == [
        "a.yaml:1", "a.yaml:2", "b.yaml:1", "b.yaml:2",
    ]  # fmt: skip


SECRETS = [
    pytest.param("transports: {http: {apiKey: hunter2}}", id="an unknown key"),
    pytest.param("apiKey: {value: hunter2}", id="below an unknown key"),
    pytest.param("plugins: [{type: max-score-picker, parameters: {password: hunter2}}]", id="an unknown parameter"),
    pytest.param("password: hunter2\npassword: hunter2", id="a key twice"),
    pytest.param("plugins: [{type: nope, parameters: {token: hunter2}}]", id="a parameter of an unknown type"),
    pytest.param("token: 'hunter2", id="an open quote"),
    pytest.param("token: hunter2: x", id="two colons"),
    pytest.param("token: [hunter2", id="an open bracket"),
    pytest.param("pool: {endpoints: [{name: a, address: b, port: 1, labels: {apiKey: [hunter2]}}]}", id="a label"),
    pytest.param("pool: {endpoints: [{name: a, address: b, port: 1, labels: {api-key: 5e2}}]}", id="a number as label"),
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_value_of_a_secret_is_shown(text: str) -> None:
    found = errors(text)
    assert found
    assert not [fault for fault in found if "hunter2" in fault or "500" in fault]


@pytest.mark.parametrize(
    "text",
    [FIVE, "plugins: [", "- a", "a: &x [*x]", "plugins: [{type: 'no.such:X'}]", "plugins: [{type: /no/file.py:X}]",
     *(param.values[0] for param in SECRETS)],
)  # fmt: skip
def test_a_fault_is_one_line_and_never_a_traceback(text: object) -> None:
    found = [str(fault) for fault in faults_of(str(text))]
    assert found
    assert not [fault for fault in found if "\n" in fault or "Traceback" in fault or len(fault) > 1500]


def test_a_plugin_that_can_not_be_built_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("class Broken:\n    def __init__(self): 1 / 0\n    def score(self, r, c): ...\n", encoding="utf-8")
    (found,) = errors(f"plugins:\n  - type: {path}:Broken\n")
    assert (
        found == "2:5: plugins[0]: the plugin '" + f"{path}:Broken' can't be built: ZeroDivisionError: division by zero"
    )


# -- nothing, null and empty


@pytest.mark.parametrize(
    "path",
    [
        "featureGates", "plugins", "schedulingProfiles", "dataLayer", "dataLayer.sources", "requestHandler.parsers",
        "transports", "transports.http", "transports.http.limits", "transports.http.timeouts", "transports.admin",
        "pool", "pool.endpoints", "pool.scrape", "pool.models", "routing", "observability", "observability.logging",
        "shutdown", "simulation", "simulation.adapters", "flowControl.priorityBands",
    ],
)  # fmt: skip
def test_absent_null_and_empty_mean_the_same(path: str) -> None:
    *above, last = path.split(".")
    lists = {
        "featureGates",
        "plugins",
        "schedulingProfiles",
        "sources",
        "parsers",
        "endpoints",
        "adapters",
        "priorityBands",
    }
    start, end = "".join(f"{key}: {{" for key in above), "}" * len(above)
    empty = "[]" if last in lists else "{}"
    texts = [f"{start}{inner}{end}" for inner in ("", f"{last}: null", f"{last}:", f"{last}: {empty}")]
    assert len({checked(text).effective() for text in texts}) == 1


@pytest.mark.parametrize("path", ["flowControl", "requestHandler", "saturationDetector"])
def test_an_optional_section_that_is_null_is_as_good_as_absent(path: str) -> None:
    assert checked(f"{path}: null").effective() == checked(f"{path}:").effective() == checked("").effective()


@pytest.mark.parametrize("section", ["flowControl", "requestHandler", "saturationDetector"])
def test_an_optional_section_that_is_empty_does_nothing(section: str) -> None:
    assert not errors(f"{section}: {{}}")


# -- written out


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("transports: {http: {timeouts: {response: 300h, connect: 1ns, idle: 100000.5s}}}", id="odd durations"),
        pytest.param("transports: {http: {limits: {bodyBytes: 1.5Gi}}}", id="a quantity"),
        pytest.param("pool: {endpoints: [{name: 'a: b', address: x, port: 1, labels: {'on': 'yes', '5': '022'}}]}", id="odd labels"),
        pytest.param('pool: {endpoints: [{name: "a\\nb", address: x, port: 1, labels: {"a\\x7fb": "\\u2028"}}]}', id="odd text"),
        pytest.param("plugins: [{name: 'a # b', type: queue-scorer}]", id="an odd name"),
        pytest.param('plugins: [{name: "a\\nb: c", type: queue-scorer, enabled: false}]', id="a line break in a disabled name"),
        pytest.param(f"plugins: [{{type: queue-scorer}}, {{type: prefix-cache-scorer}}]\n{TWO_PROFILES}", id="two profiles"),
        pytest.param("plugins: [{type: queue-scorer}, {type: decode-filter}]", id="no profile"),
        pytest.param(PROFILE.format(type="queue-scorer", entry="enabled: false"), id="a disabled entry"),
        pytest.param("schedulingProfiles: [{name: a, enabled: false}, {name: b}]", id="a disabled profile"),
        pytest.param("plugins: [{name: m, type: metrics-data-source, parameters: {interval: 2s}}]", id="a source"),
        pytest.param("dataLayer: {injectDefaults: false}", id="no metrics"),
        pytest.param("flowControl: {maxBytes: 1Gi, defaultRequestTTL: 60s, priorityBands: [{priority: 1}]}", id="flow control"),
        pytest.param("featureGates: ['flowControl=false']", id="a gate"),
    ],
)  # fmt: skip
def test_what_a_configuration_means_written_out_means_the_same_when_read_again(text: str) -> None:
    first = checked(text).effective()
    assert meaning(checked(first).effective()) == meaning(first)


def meaning(text: str) -> list[str]:
    """The lines that are no comments."""
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_duration_written_out_is_the_same_duration() -> None:
    first = checked("transports: {http: {timeouts: {response: 1234567s, connect: 1ns}}}")
    again = checked(first.effective()).configuration.settings.transports.http.timeouts
    assert (again.response, again.connect) == (1234567.0, 1e-9)
