"""What is wrong between plugins: each is told once, at its place, with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.checking import Checked
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources
from containers.application import check


def faults(text: str) -> list[str]:
    """The errors of a configuration."""
    with pytest.raises(ConfigurationError) as caught:
        check(Sources(text=text))
    return [str(fault) for fault in caught.value.faults if fault.severity == "error"]


def warnings(text: str) -> list[str]:
    return [str(fault) for fault in check(Sources(text=text)).configuration.faults.warnings]


def fine(text: str) -> Checked:
    return check(Sources(text=text))


TWO = "schedulingProfiles: [{name: a, plugins: [{pluginRef: max-score-picker}]}, {name: b, plugins: []}]"

ERRORS = [
    ("plugins: [{type: queue-scorr}]", "1:12: plugins[0].type: unknown plugin type 'queue-scorr'; did you mean 'queue-scorer'?"),
    ("plugins: [{type: nowhere:Class}]", "there is no module 'nowhere'; is it installed?"),
    ("plugins: [{type: nowhere.py:Class}]", "the plugin file nowhere.py can't be read: No such file or directory"),
    ("plugins: [{type: queue-scorer, parameters: {a: 1}}]", "plugins[0].parameters.a: unknown key 'a'"),
    ("plugins: [{type: queue-scorer, parameters: [1, 2]}]", "plugins[0].parameters: expected a mapping, found a list"),
    ("plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoints: 0}}]", "plugins[0].parameters.maxNumOfEndpoints: expected a number of at least 1, found 0"),
    ("plugins: [{type: max-score-picker, parameters: {maxNumOfEndpoint: 2}}]", "did you mean 'maxNumOfEndpoints'?"),
    ("plugins: [{type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 0}}]", "expected a number from 1 to 65536, found 0"),
    ("plugins: [{type: approx-prefix-cache-producer, parameters: {lruCapacityPerServer: 1180591620717411303424}}]", "expected a number from 1 to 100000000, found 1180591620717411303424"),
    ("plugins: [{type: active-request-scorer, parameters: {idleThreshold: asdf}}]", "expected a whole number, found the text 'asdf'"),
    ("plugins: [{type: prefix-cache-scorer, parameters: {matchLengthWeight: .nan}}]", "expected a finite number"),
    ("plugins: [{type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: in}]}}]", "matchExpressions[0].operator: expected 'In', 'NotIn', 'Exists' or 'DoesNotExist'"),
    ("plugins: [{type: label-selector-filter, parameters: {matchExpressions: [{key: a, operator: In}]}}]", "operator In takes at least one value"),
    ("plugins: [{type: core-metrics-extractor, parameters: {defaultEngine: vlm}}]", "defaultEngine 'vlm' is unknown; known engines are llamacpp, sglang, triton, triton-tensorrt-llm, trtllm-serve, vllm"),
    ("plugins: [{type: metrics-data-source, parameters: {interval: 5}}]", "expected a duration such as 250ms"),
    ("plugins: [{type: metrics-data-source, parameters: {scheme: https, caCertPath: /nowhere.pem}}]", "the plugin 'metrics-data-source' can't be built: FileNotFoundError"),
    ("plugins: [{type: file-discovery, name: f, parameters: {path: nowhere.yaml}}]\ndataLayer: {discovery: {pluginRef: f}}", "no endpoints: nowhere.yaml: No such file or directory"),
    ("plugins: [{type: random-picker}, {type: max-score-picker}]", "the profile 'default' has several pickers: 'random-picker' and 'max-score-picker'; keep one"),
    ("plugins: [{type: random-picker}, {type: max-score-picker}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: random-picker}, {pluginRef: max-score-picker}]}]", "2:22: schedulingProfiles[0]: the profile 'p' has several pickers"),
    ("plugins: [{type: single-profile-handler}, {type: header-profile-handler}]", "there are several profile pickers: 'single-profile-handler' and 'header-profile-handler'; keep one"),
    ("plugins: [{type: single-profile-handler}, {type: max-score-picker}]\n" + TWO, "single-profile-handler takes only one profile, but there are 2: a, b; use header-profile-handler"),
    ("plugins: [{type: header-profile-handler, parameters: {defaultProfile: c}}, {type: max-score-picker}]\n" + TWO, "'header-profile-handler' needs the profile 'c'; the profiles are a, b"),
    ("plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorrer}]}]", "2:43: schedulingProfiles[0].plugins[0].pluginRef: no plugin is named 'queue-scorrer'; did you mean 'queue-scorer'?"),
    ("schedulingProfiles: [{name: p, plugins: [{pluginRef: queue-scorer}]}]", "no plugin is named 'queue-scorer'; add '- type: queue-scorer' to plugins"),
    ("plugins: [{type: queue-scorr, enabled: false}]", "plugins[0].type: unknown plugin type 'queue-scorr'; did you mean 'queue-scorer'?"),
    ("schedulingProfiles: [{name: p, enabled: false}]", "every profile is disabled"),
    ("dataLayer: {sources: [{pluginRef: nobody}]}", "no plugin is named 'nobody'"),
    ("plugins: [{type: queue-scorer}]\ndataLayer: {sources: [{pluginRef: queue-scorer}]}", "a source must be a MetricsSource, but 'queue-scorer' is not"),
    ("plugins: [{type: metrics-data-source}, {type: random-picker}]\ndataLayer: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: random-picker}]}]}", "an extractor must be an Extractor, but 'random-picker' is not"),
    ("plugins: [{type: random-picker}]\ndataLayer: {discovery: {pluginRef: random-picker}}", "the discovery must be a Discovery, but 'random-picker' is not"),
    ("dataLayer: {discovery: {pluginRef: ghost}}", "no plugin is named 'ghost'"),
    ("plugins: [{type: queue-scorer}]\ndataLayer: {injectDefaults: false}", "'queue-scorer' needs the fact 'WaitingQueueSize' of the producer 'core-metrics-extractor', but nothing produces it"),
    ("plugins: [{type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: ghost}}]", "'prefix-cache-scorer' needs the facts 'prefix-hits' and 'prefix-shape' of the producer 'ghost', but nothing produces them"),
    ("plugins: [{type: prefix-cache-scorer}, {type: approx-prefix-cache-producer, enabled: false}]", "its default producer is disabled"),
    ("pool: {endpoints: [{name: a, address: x, port: 1, engine: vlm}]}", "unknown engine 'vlm'; did you mean 'vllm'?"),
    ("pool: {scrape: {interval: 60s}}", "metrics read every 60 s would be stale after 5 s; make staleAfter longer than the interval"),
    ("transports: {http: {port: 9090}}", "the router and the admin server both listen on port 9090"),
    ("simulation: {servers: 2}\npool: {endpoints: [{name: sim-1, address: x, port: 1}]}", "2:21: pool.endpoints[0].name: 'sim-1' is the name of a simulated server"),
    ("pool: {endpoints: [{name: a, address: 'http://10.0.0.1', port: 1}]}", "expected an IP address or a host name, without scheme and port"),
    ("pool: {endpoints: [{name: a, address: 'a b/c@evil', port: 1}]}", "expected an IP address or a host name"),
    ("plugins: [{type: max-score-picker, enabled: false}]", "'max-score-picker' is disabled but needed: there is no other picker for default; enable it, or list another plugin of its kind"),
    ("plugins: [{type: single-profile-handler, enabled: false}]", "'single-profile-handler' is disabled but needed: there is only one profile"),
    ("plugins: [{type: header-profile-handler, enabled: false}, {type: max-score-picker}]\n" + TWO, "'header-profile-handler' is disabled but needed: there are several profiles and no other profile picker"),
    ("plugins: [{name: max-score-picker, type: queue-scorer}, {type: running-requests-size-scorer}]", "the name 'max-score-picker' is taken, but a plugin of that type must be added"),
    ("transports: {http: {bind: 300.1.1.1}}", "transports.http.bind: expected an IP address or a host name"),
    ("featureGates: [unknown-gate]", "unknown feature gate 'unknown-gate'"),
    ("featureGates: [' flowControl']", "unknown feature gate ' flowControl'; did you mean 'flowControl'?"),
    ("featureGates: ['flowControl=qwerty']", "expected flowControl=true or flowControl=false, found 'qwerty'"),
    ("featureGates: ['flowControl= TRUE ']", "this version has no flow control; set flowControl=false"),
    ("featureGates: [flowControl]", "this version has no flow control"),
    ("plugins: [{type: random-picker}]\nrequestHandler: {parsers: [{pluginRef: random-picker}]}", "a parser must be a Parser, but 'random-picker' is not"),
    ("requestHandler: {parsers: [{pluginRef: x}]}", "no plugin is named 'x'"),
    ("saturationDetector: {pluginRef: utilization-detector}", "no plugin is named 'utilization-detector'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), ERRORS, ids=[text[:70] for text, _ in ERRORS])
def test_a_mistake_is_an_error_that_says_what_and_where(text: str, fault: str) -> None:
    found = faults(text)
    assert any(fault in line for line in found), found
    assert all(line.count("\n") < 15 and "Traceback" not in line for line in found)


WARNINGS = [
    ("plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: p, plugins: []}]", "1:11: warning: plugins[0]: the plugin 'queue-scorer' is in no profile and never runs"),
    ("plugins: [{type: decode-filter}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: decode-filter, weight: 2}]}]", "'decode-filter' is not a scorer: its weight has no effect"),
    ("plugins: [{type: single-profile-handler}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: single-profile-handler}]}]", "'single-profile-handler' has no effect here: it is not a filter, scorer or picker"),
    ("plugins: [{type: max-score-picker}]\n" + TWO, "there are several profiles but no profile picker: the header EPP-Profile selects one, by default 'a'"),
    ("plugins: [{type: queue-scorer}, {name: q, type: queue-scorer, enabled: false}]", "'q' is disabled but nothing refers to it, and 'queue-scorer' of the same type stays enabled; to disable that one, set 'name: queue-scorer'"),
    ("featureGates: ['flowControl=false']", "the feature gate flowControl has no effect"),
    ("featureGates: [haPopulateNonLeaderDatastore]", "the feature gate haPopulateNonLeaderDatastore has no effect"),
    ("flowControl: {maxBytes: '1024'}", "flowControl has no effect: this version has no flow control"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "warning"), WARNINGS, ids=[text[:70] for text, _ in WARNINGS])
def test_what_is_probably_not_meant_is_a_warning(text: str, warning: str) -> None:
    assert any(warning in line for line in warnings(text))


@pytest.mark.parametrize("name", ["approx-prefix-cache-producer", "inflight-load-producer"])
def test_a_producer_that_nothing_needs_acts_all_the_same_and_is_no_warning(name: str) -> None:
    assert not warnings(f"plugins: [{{type: {name}}}]")


def test_one_mistake_in_a_plugin_does_not_make_its_references_wrong() -> None:
    text = "plugins: [{type: max-score-picker, parameters: {a: 1, maxNumOfEndpoints: x}}]\nschedulingProfiles: [{name: p, plugins: [{pluginRef: max-score-picker}]}]"
    assert len(faults(text)) == 2


@pytest.mark.parametrize(
    "off",
    [
        "plugins: [{type: expected-ttft-scorer, enabled: false}]",
        "schedulingProfiles: [{name: default, plugins: [{pluginRef: expected-ttft-scorer, enabled: false}]}]",
    ],
)
def test_what_is_switched_off_drops_out_and_show_says_so(off: str) -> None:
    checked = check(Sources(("builtin:default",), off))
    assert "expected-ttft-scorer" not in [name for name, _ in checked.plan.profiles[0].scorers]
    assert "# the profile default runs without expected-ttft-scorer" in checked.effective()


def test_a_profile_may_be_switched_off() -> None:
    plan = fine("plugins: [{type: random-picker}]\nschedulingProfiles: [{name: a}, {name: b, enabled: false}]").plan
    assert [profile.name for profile in plan.profiles] == ["a"]


@pytest.mark.parametrize(
    ("text", "picker"),
    [
        pytest.param("kind: EndpointPickerConfig", "max-score-picker", id="none"),
        pytest.param(
            "plugins: [{type: random-picker}]\nschedulingProfiles: [{name: p}]", "random-picker", id="the only one"
        ),
        pytest.param(
            "plugins: [{type: random-picker}, {name: r2, type: random-picker}]\nschedulingProfiles: [{name: p}]",
            "max-score-picker",
            id="one of several",
        ),
    ],
)
def test_a_profile_without_a_picker_gets_one(text: str, picker: str) -> None:
    assert fine(text).plan.profiles[0].picker == picker


def test_without_profiles_there_is_one_with_everything_in_the_order_listed() -> None:
    (profile,) = fine("plugins: [{type: prefill-filter}, {type: queue-scorer}, {type: decode-filter}]").plan.profiles
    assert (profile.name, profile.filters, profile.scorers) == (
        "default",
        ["prefill-filter", "decode-filter"],
        [("queue-scorer", 1.0)],
    )


def test_a_metrics_source_under_another_name_is_not_doubled() -> None:
    plan = fine("plugins: [{name: ms, type: metrics-data-source}]\ndataLayer: {sources: [{pluginRef: ms}]}").plan
    assert [(source.source, list(source.extractors)) for source in plan.sources] == [("ms", ["core-metrics-extractor"])]


def test_a_producer_under_another_name_serves_those_who_name_it_and_others_get_their_own() -> None:
    plan = fine("""
plugins:
  - {name: mine, type: approx-prefix-cache-producer}
  - {name: a, type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: mine}}
  - {name: b, type: prefix-cache-scorer}
""").plan
    assert set(plan.producers) == {"mine", "approx-prefix-cache-producer"}


@pytest.mark.parametrize(
    "order",
    [
        "{type: inflight-load-producer}, {type: approx-prefix-cache-producer}",
        "{type: approx-prefix-cache-producer}, {type: inflight-load-producer}",
    ],
)
def test_producers_run_after_those_whose_facts_they_want(order: str) -> None:
    assert list(fine(f"plugins: [{order}]").plan.producers) == [
        "approx-prefix-cache-producer",
        "inflight-load-producer",
    ]


SECTIONS = ["plugins", "schedulingProfiles", "dataLayer", "featureGates", "requestHandler", "transports", "pool", "routing", "observability", "shutdown", "simulation", "flowControl", "saturationDetector", "parser"]  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_without_anything_is_as_good_as_none(section: str) -> None:
    assert fine(f"{section}:").effective() == fine("kind: EndpointPickerConfig").effective()


SMALLEST = ["queue-scorer", "kv-cache-utilization-scorer", "running-requests-size-scorer", "active-request-scorer", "prefix-cache-scorer", "max-score-picker", "random-picker", "single-profile-handler", "header-profile-handler", "decode-filter", "prefill-filter", "label-selector-filter", "approx-prefix-cache-producer", "inflight-load-producer", "metrics-data-source", "core-metrics-extractor"]  # fmt: skip


@pytest.mark.parametrize("name", SMALLEST)
def test_every_plugin_works_alone(name: str) -> None:
    checked = fine(f"plugins: [{{type: {name}}}]")
    assert check(Sources(text=checked.effective())).effective() != ""


def test_producers_that_need_each_others_facts_are_reported_as_a_cycle(tmp_path: Path) -> None:
    path = tmp_path / "cycle.py"
    path.write_text(
        "from pointsman import FactKey, PREFIX_HITS\n"
        "A, B = PREFIX_HITS.of('a'), PREFIX_HITS.of('b')\n"
        "class First:\n    needs, produces = (B,), (A,)\n    async def produce(self, request, pool): return {}\n"
        "class Second:\n    needs, produces = (A,), (B,)\n    async def produce(self, request, pool): return {}\n"
    )
    found = faults(f"plugins: [{{name: a, type: '{path}:First'}}, {{name: b, type: '{path}:Second'}}]")
    assert len(found) == 1
    assert "producers need each other's facts in a cycle: " in found[0]


@pytest.mark.parametrize("engine", ["auto", "vllm", "sglang", "own"])
def test_an_engine_that_an_extractor_knows_is_fine(engine: str) -> None:
    own = "{name: own, queuedRequestsSpec: q}"
    fine(f"""
plugins: [{{type: core-metrics-extractor, parameters: {{engineConfigs: [{own}]}}}}]
pool: {{endpoints: [{{name: a, address: x, port: 1, engine: {engine}}}]}}
""")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param("    needs = ('waiting',)", "'needs' of Odd must hold fact keys, found str", id="text"),
        pytest.param("    wants = 5", "'wants' of Odd raised TypeError", id="a number"),
        pytest.param(
            "    @classmethod\n    def produces(cls, name, params): raise KeyError('x')",
            "'produces' of Odd raised KeyError",
            id="raises",
        ),
        pytest.param(
            "    def __init__(self): raise SystemExit(0)", "can't be built: SystemExit: 0", id="ends the process"
        ),
    ],
)
def test_a_class_that_is_odd_is_a_fault_and_no_traceback(tmp_path: Path, body: str, fault: str) -> None:
    path = tmp_path / "odd.py"
    path.write_text(f"class Odd:\n{body}\n    def score(self, request, candidates): return []\n")
    (found,) = faults(f"plugins: [{{type: '{path}:Odd'}}]")
    assert fault in found
