"""`pointsman explain`: the decision for one request, with values worked out by hand."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.__main__ import main
from app.explaining.tables import as_tables

DOCS = Path(__file__).parents[3] / "docs" / "operations.md"

FOUR_BLOCKS = {"model": "demo", "prompt": "x" * 1024}
"""Four blocks of 64 tokens of four bytes."""

THREE = """\
endpoints:
  - {name: a, address: 10.0.0.1, port: 8000, metrics: {waiting: 4, running: 8, kvCacheUsage: 0.5}, facts: {prefix-hits: 4}}
  - {name: b, address: 10.0.0.2, port: 8000, metrics: {waiting: 0, running: 2, kvCacheUsage: 0.25}, facts: {prefix-hits: 1}}
  - {name: c, address: 10.0.0.3, port: 8000, metrics: {waiting: 1, running: 1, kvCacheUsage: 0}}
"""

WITHOUT_FACTS = re.sub(r", facts: {.*?}", "", THREE)

TWO_IDLE = """\
endpoints:
  - {name: a, address: 10.0.0.1, port: 8000}
  - {name: b, address: 10.0.0.2, port: 8000}
"""

QUEUE_KV_PREFIX = """\
plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}, {type: max-score-picker}]
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: queue-scorer, weight: 2}
      - {pluginRef: kv-cache-utilization-scorer, weight: 2}
      - {pluginRef: prefix-cache-scorer, weight: 3}
      - {pluginRef: max-score-picker}
"""

BY_HEADER = """\
plugins:
  - {type: header-profile-handler}
  - {type: queue-scorer}
  - {type: kv-cache-utilization-scorer}
schedulingProfiles:
  - {name: short-queue, plugins: [{pluginRef: queue-scorer}]}
  - {name: free-cache, plugins: [{pluginRef: kv-cache-utilization-scorer}]}
"""

ROLES = """\
plugins:
  - {type: decode-filter}
  - {name: gold, type: label-selector-filter, parameters: {matchLabels: {tier: gold}}}
schedulingProfiles:
  - {name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: gold}]}
"""

LABELLED = """\
endpoints:
  - {name: a, address: 10.0.0.1, port: 8000, labels: {llm-d.ai/role: prefill, tier: gold}}
  - {name: b, address: 10.0.0.2, port: 8000, labels: {tier: TIER}}
  - {name: c, address: 10.0.0.3, port: 8000, labels: {tier: iron}}
"""

Explain = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is process-wide: what the command sets up is taken back."""
    root, servers = logging.getLogger(), logging.getLogger("aiohttp.server")
    level, handlers, servers_level = root.level, list(root.handlers), servers.level
    yield
    servers.setLevel(servers_level)
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Runs the command in a folder of its own; gives the exit code, what it printed, and the lines of its errors."""
    monkeypatch.chdir(tmp_path)

    def run(
        *arguments: str, request: object = FOUR_BLOCKS, endpoints: str | None = None, config: str | None = None
    ) -> tuple[int, str, list[str]]:
        Path("r.json").write_text(request if isinstance(request, str) else json.dumps(request))
        files = [] if endpoints is None else ["--endpoints", "e.yaml"]
        Path("e.yaml").write_text(endpoints or "")
        layers = [] if config is None else ["--config-text", config]
        code = main(["explain", "--request", "r.json", *files, *layers, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.splitlines()

    return run


@pytest.fixture
def explained(explain: Explain) -> Callable[..., Mapping[str, Any]]:
    """The same as JSON, of a run that must succeed."""

    def run(*arguments: str, **given: Any) -> Mapping[str, Any]:
        code, out, _ = explain("--json", *arguments, **given)
        assert code == 0
        return json.loads(out)

    return run


Explained = Callable[..., Mapping[str, Any]]


def totals(profile: Mapping[str, Any]) -> Mapping[str, float]:
    return {row["endpoint"]: row["total"] for row in profile["scores"]}


def raw(profile: Mapping[str, Any], scorer: str) -> Mapping[str, float]:
    return {row["endpoint"]: row["scorers"][scorer]["raw"] for row in profile["scores"]}


# -- the decision


def test_the_default_profile_scores_the_expected_time_to_first_token(explained: Explained) -> None:
    """The prompt of 1,024 letters has 1.4 bytes per token; an endpoint processes 8,000 tokens per second. A request that
    waits in an engine and is not ours has 1,000 tokens."""
    data = explained(endpoints=THREE)
    seconds = {"a": (4000 + 1) / 8000, "b": 768 / 1.4 / 8000, "c": (1000 + 1024 / 1.4) / 8000}
    found = raw(data["profiles"][0], "expected-ttft-scorer")
    assert found == pytest.approx({name: seconds["b"] / one for name, one in seconds.items()}, abs=1e-3)
    assert data["winner"]["endpoint"] == "b"


def test_scores_totals_and_the_winner_of_a_profile_are_right(explained: Explained) -> None:
    data = explained(endpoints=THREE, config=QUEUE_KV_PREFIX)
    (profile,) = data["profiles"]
    assert raw(profile, "queue-scorer") == {"a": 0, "b": 1, "c": 0.75}  # (4 - waiting) / 4
    assert raw(profile, "kv-cache-utilization-scorer") == {"a": 0.5, "b": 0.75, "c": 1}
    assert raw(profile, "prefix-cache-scorer") == {"a": 1, "b": 0.25, "c": 0}  # hits of 4 blocks
    assert profile["scores"][0] == {
        "endpoint": "b",
        "scorers": {
            "queue-scorer": {"raw": 1, "weighted": 2},
            "kv-cache-utilization-scorer": {"raw": 0.75, "weighted": 1.5},
            "prefix-cache-scorer": {"raw": 0.25, "weighted": 0.75},
        },
        "total": 4.25,
    }
    assert list(totals(profile).items()) == [("b", 4.25), ("a", 4), ("c", 3.5)]  # best first
    assert (profile["picker"], profile["picked"]) == ("max-score-picker", ["b"])
    assert data["winner"] == {"endpoint": "b", "address": "10.0.0.2:8000", "profile": "default"}
    assert (data["refusal"], data["faults"]) == (None, [])


def test_the_tables_say_the_same_as_the_json(explain: Explain) -> None:
    code, out, errors = explain(endpoints=THREE, config=QUEUE_KV_PREFIX)
    assert (code, errors) == (0, [])
    assert out.splitlines() == [
        "request: POST /v1/completions for the model 'demo', about 256 prompt tokens; seed 0",
        "fact: prefix-shape/approx-prefix-cache-producer: total_blocks 4, block_tokens 64",
        "",
        "endpoints",
        "  endpoint  address        metrics  waiting  running  KV cache  in flight  prefix-hits/approx-prefix-cache-producer",
        "  a         10.0.0.1:8000  known    4        8        0.500     0          4",
        "  b         10.0.0.2:8000  known    0        2        0.250     0          1",
        "  c         10.0.0.3:8000  known    1        1        0.000     0          0",
        "",
        "profile 'default', chosen by single-profile-handler",
        "  endpoint  queue-scorer x 2  kv-cache-utilization-scorer x 2  prefix-cache-scorer x 3  total  pick",
        "  b         1.000 -> 2.000    0.750 -> 1.500                   0.250 -> 0.750           4.250  1",
        "  a         0.000 -> 0.000    0.500 -> 1.000                   1.000 -> 3.000           4.000",
        "  c         0.750 -> 1.500    1.000 -> 2.000                   0.000 -> 0.000           3.500",
        "  max-score-picker picked b",
        "",
        "winner: b at 10.0.0.2:8000, by the profile 'default'",
    ]


@pytest.mark.parametrize(
    ("headers", "profile", "winner"),
    [
        ([], "short-queue", "b"),
        (["EPP-Profile: free-cache"], "free-cache", "c"),
        (["epp-profile:short-queue"], "short-queue", "b"),
    ],
)
def test_a_header_chooses_the_profile(explained: Explained, headers: Sequence[str], profile: str, winner: str) -> None:
    data = explained(*(f"--header={header}" for header in headers), endpoints=WITHOUT_FACTS, config=BY_HEADER)
    assert data["profile_picker"] == "header-profile-handler"
    assert [ran["name"] for ran in data["profiles"]] == [profile]
    assert (data["winner"]["endpoint"], data["winner"]["profile"]) == (winner, profile)


def test_a_header_of_the_command_replaces_one_of_the_envelope(explained: Explained) -> None:
    request = {"body": FOUR_BLOCKS, "headers": {"EPP-Profile": "free-cache"}}
    given = {"request": request, "endpoints": WITHOUT_FACTS, "config": BY_HEADER}
    assert explained(**given)["winner"]["endpoint"] == "c"
    assert explained("--header", "EPP-Profile: short-queue", **given)["winner"]["endpoint"] == "b"


def test_each_filter_shows_what_it_dropped(explain: Explain, explained: Explained) -> None:
    endpoints = LABELLED.replace("TIER", "gold")
    data = explained(endpoints=endpoints, config=ROLES)
    assert data["profiles"][0]["filters"] == [
        {"name": "decode-filter", "kept": ["b", "c"], "dropped": ["a"]},
        {"name": "gold", "kept": ["b"], "dropped": ["c"]},
    ]
    assert data["winner"]["endpoint"] == "b"
    assert "  decode-filter  2     a" in explain(endpoints=endpoints, config=ROLES)[1].splitlines()


def test_an_error_response_names_the_filter_that_dropped_every_endpoint(explain: Explain, explained: Explained) -> None:
    given = {"endpoints": LABELLED.replace("TIER", "iron"), "config": ROLES}
    data = explained(**given)
    assert data["winner"] is None
    assert data["refusal"] == {
        "status": 429,
        "reason": "rejected-saturated",
        "message": "every endpoint was ruled out for this request",
        "left_none": [{"profile": "default", "filter": "gold"}],
    }
    code, out, _ = explain(**given)
    assert (code, out.splitlines()[-2:]) == (
        0,
        [
            "refused: 429 rejected-saturated: every endpoint was ruled out for this request",
            "the filter 'gold' of the profile 'default' dropped every endpoint",
        ],
    )


def test_an_unknown_profile_in_a_header_is_a_bad_request(explained: Explained) -> None:
    data = explained("--header", "EPP-Profile: none", endpoints=WITHOUT_FACTS, config=BY_HEADER)
    assert (data["refusal"]["status"], data["refusal"]["reason"]) == (400, "rejected-bad-request")
    assert data["refusal"]["message"] == "the header EPP-Profile names the profile 'none', which does not exist"
    assert data["profiles"] == []


def test_without_endpoints_there_is_an_error_response_and_a_hint(explain: Explain) -> None:
    code, out, _ = explain()
    assert code == 0
    assert out.splitlines()[-2:] == [
        "refused: 503 rejected-no-endpoints: no endpoint is available for this request",
        "there are no endpoints: pass --endpoints, or set pool.endpoints in the configuration",
    ]


def test_the_endpoints_of_the_configuration_are_unknown(explained: Explained) -> None:
    pool = "pool: {endpoints: [{name: w, address: 10.0.0.9, port: 1}, {name: x, address: h, port: 2, enabled: false}]}"
    (endpoint,) = explained(config=pool)["endpoints"]
    assert (endpoint["name"], endpoint["metrics"], endpoint["models"]) == ("w", "unknown", None)


def test_a_model_that_no_endpoint_lists_is_not_found(explained: Explained) -> None:
    endpoints = TWO_IDLE.replace("port: 8000", "port: 8000, models: [other]")
    data = explained(endpoints=endpoints)
    assert (data["refusal"]["status"], data["refusal"]["reason"]) == (404, "rejected-unknown-model")


def test_an_endpoint_that_does_not_list_the_model_is_not_a_candidate(explain: Explain, explained: Explained) -> None:
    endpoints = TWO_IDLE.replace("port: 8000}", "port: 8000, models: [other]}", 1)
    data = explained(endpoints=endpoints)
    assert [(one["name"], one["serves_model"], one["models"]) for one in data["endpoints"]] == [
        ("a", False, ["other"]),
        ("b", True, None),
    ]
    assert list(totals(data["profiles"][0])) == ["b"]
    assert (
        "  not candidates, because they do not list the model 'demo': a" in explain(endpoints=endpoints)[1].splitlines()
    )


def test_a_body_that_its_path_does_not_fit_is_a_bad_request(explained: Explained) -> None:
    data = explained(request={"model": "demo", "messages": []}, endpoints=TWO_IDLE)
    assert data["refusal"]["status"] == 400
    assert data["refusal"]["message"].startswith("'messages' must be a list of at least one message")


def test_a_body_over_the_limit_is_too_large(explained: Explained) -> None:
    data = explained("--set", "transports.http.limits.bodyBytes=1024", endpoints=TWO_IDLE)
    assert (data["refusal"]["status"], data["refusal"]["reason"]) == (413, "rejected-too-large")


# -- what is known of the endpoints


def test_an_unknown_endpoint_counts_by_its_requests_in_flight(explain: Explain, explained: Explained) -> None:
    endpoints = THREE + "  - {name: d, address: 10.0.0.4, port: 8000, inFlight: 2}\n"
    data = explained(endpoints=endpoints, config=QUEUE_KV_PREFIX)
    unknown = data["endpoints"][3]
    assert (unknown["metrics"], unknown["waiting"], unknown["running"], unknown["in_flight"]) == ("unknown", 2, 2, 2)
    assert unknown["kv_cache_usage"] == 0.25  # the mean of 0.5, 0.25 and 0
    assert raw(data["profiles"][0], "queue-scorer")["d"] == 0.5
    assert any(
        line.startswith("  unknown metrics: in flight stands in")
        for line in explain(endpoints=endpoints)[1].splitlines()
    )


def test_every_metric_of_the_file_arrives(explain: Explain, explained: Explained) -> None:
    metrics = (
        "{waiting: 1, running: 2, kvCacheUsage: 0.5, engine: vllm, blockSize: 48, numBlocks: 8,"
        " runningAdapters: [sql], waitingAdapters: [tag], maxAdapters: 2}"
    )
    endpoints = f"endpoints: [{{name: a, address: h, port: 1, labels: {{zone: north}}, metrics: {metrics}}}]"
    config = "plugins: [{type: lora-affinity-scorer}, {type: prefix-cache-scorer}]"
    data = explained(request={**FOUR_BLOCKS, "model": "tag"}, endpoints=endpoints, config=config)
    (endpoint,) = data["endpoints"]
    assert (endpoint["engine"], endpoint["labels"]) == ("vllm", {"zone": "north"})
    assert (endpoint["running_adapters"], endpoint["waiting_adapters"]) == (["sql"], ["tag"])
    assert raw(data["profiles"][0], "lora-affinity-scorer") == {"a": 0.6}  # it waits, and both places are taken
    shape = data["request"]["facts"]["prefix-shape/approx-prefix-cache-producer"]
    assert shape == {"total_blocks": 2, "block_tokens": 96}  # the least multiple of 48 from 64 on
    out = explain(endpoints=endpoints, config=config)[1]
    assert "engine  running adapters  waiting adapters  labels" in out
    assert "vllm    sql               tag               zone=north" in out


def test_the_names_ports_and_namespaces_are_those_of_file_discovery(explained: Explained) -> None:
    endpoints = 'endpoints: [{name: a, namespace: n, address: "::1", port: "80", metricsPort: 81}]'
    (endpoint,) = explained(endpoints=endpoints)["endpoints"]
    assert (endpoint["name"], endpoint["address"]) == ("n/a", "[::1]:80")


def test_given_facts_win_endpoint_by_endpoint_and_later_producers_see_them(explained: Explained) -> None:
    config = "plugins: [{type: active-request-scorer}, {type: prefix-cache-scorer}]"
    data = explained(endpoints=THREE, config=config)
    uncached = {one["name"]: one["facts"]["uncached-tokens/inflight-load-producer"] for one in data["endpoints"]}
    assert uncached == {"a": 0, "b": 192, "c": 256}  # 256 tokens less 64 for each block that is cached


def test_requests_in_flight_are_those_that_their_producer_counts(explained: Explained) -> None:
    endpoints = (
        TWO_IDLE.replace("port: 8000}", "port: 8000, inFlight: 2}", 1)
        + "  - {name: c, address: h, port: 1, inFlight: 7, facts: {in-flight-requests: 1}}\n"
    )
    data = explained(endpoints=endpoints, config="plugins: [{type: active-request-scorer}]")
    assert raw(data["profiles"][0], "active-request-scorer") == {"a": 0, "b": 1, "c": 0.5}  # (2 - count) / 2


def test_a_bare_name_goes_to_every_instance_and_a_full_one_to_its_own(explained: Explained) -> None:
    config = """\
plugins:
  - {name: one, type: prefix-cache, parameters: {hashBlockSize: 256}}
  - {name: two, type: prefix-cache, parameters: {hashBlockSize: 256}}
"""
    endpoints = "endpoints: [{name: a, address: h, port: 1, facts: {prefix-hits/two: 3, prefix-hits: 2}}]"
    data = explained(endpoints=endpoints, config=config)
    assert data["endpoints"][0]["facts"] == {"prefix-hits/one": 2, "prefix-hits/two": 3}
    assert (raw(data["profiles"][0], "one"), raw(data["profiles"][0], "two")) == ({"a": 0.5}, {"a": 0.75})


# -- randomness, time and the network


def test_the_seed_decides_ties_and_the_same_seed_decides_the_same(explain: Explain, explained: Explained) -> None:
    winners = [explained("--seed", str(seed), endpoints=TWO_IDLE)["winner"]["endpoint"] for seed in range(10)]
    assert set(winners) == {"a", "b"}
    assert explained(endpoints=TWO_IDLE)["winner"]["endpoint"] == winners[0]
    assert explain("--seed", "4", endpoints=TWO_IDLE) == explain("--seed", "4", endpoints=TWO_IDLE)


def test_several_picks_are_numbered_best_first(explain: Explain, explained: Explained) -> None:
    more = ("--set", "plugins[max-score-picker].parameters.maxNumOfEndpoints=2")
    assert explained(*more, endpoints=THREE, config=QUEUE_KV_PREFIX)["profiles"][0]["picked"] == ["b", "a"]
    lines = explain(*more, endpoints=THREE, config=QUEUE_KV_PREFIX)[1].splitlines()
    assert [line.split()[-1] for line in lines if line.startswith(("  b  ", "  a  "))][2:] == ["1", "2"]
    assert "  max-score-picker picked b, a" in lines


def test_two_processes_print_the_same_bytes(explain: Explain) -> None:
    explain(endpoints=THREE)
    command = [sys.executable, "-m", "app", "explain", "--request", "r.json", "--endpoints", "e.yaml"]
    root = Path(__file__).parents[3]
    outputs = {
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": seed, "COLUMNS": columns, "FORCE_COLOR": "1"},
        ).stdout
        for seed, columns in (("1", "40"), ("2", "200"))
    }
    assert len(outputs) == 1


PLUGINS = """\
from pointsman import Candidates, EndpointFactKey, HttpClient, InferenceRequest, Pool

PRICE = EndpointFactKey("price", "asker")


class Asker:
    produces = (PRICE,)

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def produce(self, request: InferenceRequest, pool: Pool):
        await self._http.get("http://10.0.0.1/price", timeout=1)


class Vague:
    produces = (PRICE,)

    async def produce(self, request: InferenceRequest, pool: Pool):
        return {PRICE: {"a": "cheap"}}


class Silent:
    async def produce(self, request: InferenceRequest, pool: Pool):
        return None


class Broken:
    def filter(self, request: InferenceRequest, candidates: Candidates):
        raise ValueError("no idea")


class Watching:
    def on_scheduled(self, request, decision):
        raise AssertionError("data")

    def on_finished(self, request, decision, outcome):
        raise AssertionError("data")

    def on_refused(self, request, error):
        raise AssertionError("data")


class Shaky:
    def score(self, request: InferenceRequest, candidates: Candidates):
        return [float("nan")] * len(candidates)
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., str]:
    """A configuration of the classes above."""
    (tmp_path / "own.py").write_text(PLUGINS)
    return lambda *names: "plugins:\n" + "".join(f'  - {{name: {n.lower()}, type: "own.py:{n}"}}\n' for n in names)


def test_no_connection_is_opened(
    explained: Explained, own: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    data = explained(endpoints=TWO_IDLE, config=own("Asker"))
    assert data["winner"] is not None
    assert data["faults"] == [
        {
            "plugin": "asker",
            "extension_point": "Producer",
            "cause": "ConnectionError: explain opens no connections: http://10.0.0.1/price",
        }
    ]


def test_a_fact_of_a_producer_that_failed_can_be_given(explained: Explained, own: Callable[..., str]) -> None:
    endpoints = TWO_IDLE.replace("port: 8000}", "port: 8000, facts: {price: 1.5}}", 1)
    data = explained(endpoints=endpoints, config=own("Asker"))
    assert [one["facts"] for one in data["endpoints"]] == [{"price/asker": 1.5}, {"price/asker": 0}]


def test_failing_plugins_are_reported_as_in_the_log(explain: Explain, own: Callable[..., str]) -> None:
    code, out, _ = explain(endpoints=TWO_IDLE, config=own("Silent", "Vague", "Shaky"))
    faults = out[out.index("plugins that failed") :].splitlines()[2:5]
    assert code == 0
    assert [line.split()[:2] for line in faults] == [["silent", "Producer"], ["shaky", "Scorer"], ["asker", "Producer"]]
    assert "it returned None" in faults[0]
    assert "it scored NaN" in faults[1]
    assert "could not convert string to float" in faults[2]


def test_a_filter_that_fails_is_an_internal_error_and_named(explained: Explained, own: Callable[..., str]) -> None:
    data = explained(endpoints=TWO_IDLE, config=own("Broken"))
    assert (data["refusal"]["status"], data["refusal"]["message"]) == (500, "internal error")
    assert data["faults"] == [{"plugin": "broken", "extension_point": "decision", "cause": "ValueError: no idea"}]


def test_observers_are_not_called(explained: Explained, own: Callable[..., str]) -> None:
    config = own("Watching")
    assert explained(endpoints=TWO_IDLE, config=config)["faults"] == []
    assert explained(config=config)["faults"] == []


def test_the_failure_of_a_scorer_is_reported_although_the_request_was_rejected(
    explained: Explained, own: Callable[..., str]
) -> None:
    config = own("Shaky") + "  - {type: prefill-filter}\n  - {type: own.py:Two}\n"
    Path("own.py").write_text(
        PLUGINS
        + """

class Two:
    def pick_profiles(self, request, profiles, finished):
        return () if finished else profiles

    def conclude(self, request, finished):
        from pointsman import Decision
        return Decision("empty", finished)
"""
    )
    config += "schedulingProfiles: [{name: full, plugins: [{pluginRef: shaky}]}, {name: empty, plugins: [{pluginRef: prefill-filter}]}]\n"
    data = explained(endpoints=TWO_IDLE, config=config)
    assert data["refusal"]["left_none"] == [{"profile": "empty", "filter": "prefill-filter"}]
    assert [profile["name"] for profile in data["profiles"]] == ["full", "empty"]
    assert [fault["plugin"] for fault in data["faults"]] == ["shaky"]


def test_a_fact_about_the_request_is_shown_as_far_as_it_is_plain(explain: Explain, explained: Explained) -> None:
    Path("own.py").write_text("""\
from pointsman import FactKey

KEYS = (FactKey("number", "p", 0), FactKey("list", "p", ()))


class Plain:
    produces = KEYS

    async def produce(self, request, pool):
        return dict(zip(KEYS, (7, [1])))
""")
    given = {"endpoints": TWO_IDLE, "config": 'plugins: [{name: p, type: "own.py:Plain"}]'}
    assert explained(**given)["request"]["facts"] == {"number/p": 7, "list/p": "list"}
    assert explain(**given)[1].splitlines()[1:3] == ["fact: number/p: 7", "fact: list/p: list"]


# -- the request


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": [{"role": "user", "content": "Hello"}]}, "/v1/chat/completions"),
        ({"prompt": "Hello"}, "/v1/completions"),
        ({"input": "Hello"}, "/v1/responses"),
        ({"input": [{"role": "user", "content": "Hello"}]}, "/v1/responses"),
        ({"input": "Hello", "encoding_format": "float"}, "/v1/embeddings"),
        ({"input": ["Hello", "you"]}, "/v1/embeddings"),
    ],
)
def test_the_path_is_inferred_from_the_keys_of_the_body(
    explained: Explained, body: Mapping[str, Any], path: str
) -> None:
    request = explained(request={"model": "demo", **body}, endpoints=TWO_IDLE)["request"]
    assert (request["path"], request["method"], request["model"]) == (path, "POST", "demo")
    assert request["prompt_tokens"] > 0


def test_the_path_of_the_command_counts_before_that_of_the_envelope(explained: Explained) -> None:
    message = {"role": "user", "content": "Hello"}
    request = {"path": "/v1/messages?beta=1", "body": {"model": "demo", "max_tokens": 1, "messages": [message]}}
    assert explained(request=request, endpoints=TWO_IDLE)["request"]["path"] == "/v1/messages"
    data = explained("--path", "/v1/chat/completions?x", request=request, endpoints=TWO_IDLE)
    assert data["request"]["path"] == "/v1/chat/completions"


def test_a_request_without_a_body_is_explained(explained: Explained) -> None:
    data = explained(request={"method": "GET", "path": "/v1/models/demo"}, endpoints=TWO_IDLE)
    assert (data["request"]["method"], data["request"]["model"]) == ("GET", "demo")


def test_adapter_streaming_and_prompt_are_read_by_the_configurations_parsers(explain: Explain) -> None:
    request = {"model": "demo", "prompt": "Hello", "lora_path": "sql"}
    out = explain(request=request, endpoints=TWO_IDLE)[1]
    assert out.splitlines()[0] == (
        "request: POST /v1/completions for the model 'demo' with the adapter 'sql', about 2 prompt tokens; seed 0"
    )
    data = explain(
        "--json",
        request=request,
        endpoints=TWO_IDLE,
        config="requestHandler: {parsers: [{pluginRef: p}]}\nplugins: [{name: p, type: passthrough-parser}]",
    )
    assert json.loads(data[1])["request"]["prompt_tokens"] == 0


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("{", "r.json:1:2: invalid JSON: expecting property name enclosed in double quotes"),
        ('{\n "a": 1,\n "b" 2}', "r.json:3:6: invalid JSON: expecting ':' delimiter"),
        ("[1]", "r.json:1:1: expected a JSON object, found a list"),
        ("null", "r.json:1:1: expected a JSON object, found nothing"),
        ("[" * 100_000, "r.json:1:1: the JSON can't be read: it is nested too deeply"),
        ("9" * 5000, "r.json:1:1: the JSON can't be read: a number has too many digits"),
        ({"model": "demo"}, "r.json:1:1: the path can't be inferred from the body, which has no 'messages', 'prompt' or 'input'; pass --path"),
        ({"path": "/v1/completions"}, "r.json:1:1: the key 'body' is missing"),
        ({"method": "GET"}, "r.json:1:1: the path can't be inferred from the body, which has no 'messages', 'prompt' or 'input'; pass --path"),
        ('{"body": {},\n "header": {}}', "r.json:2:2: header: unknown key 'header'; did you mean 'headers'?"),
        ('{"body": {},\n "path": "v1"}', "r.json:2:2: path: expected a path that begins with '/'"),
        ('{"body": {},\n "method": "post"}', "r.json:2:2: method: expected a method such as POST or GET"),
        ('{"body": {}, "headers":\n {"a": 1}}', "r.json:2:3: headers.a: expected text, found 1; quote it"),
        ('{"path": "/v1/completions",\n "body": "text"}', "r.json:2:2: body: expected a mapping, found"),
    ],
)  # fmt: skip
def test_an_error_in_the_request_file_is_reported_with_its_place(explain: Explain, request_: object, said: str) -> None:
    code, out, errors = explain(request=request_, endpoints=TWO_IDLE)
    assert (code, out, errors[1:]) == (1, "", ["1 error"])
    assert errors[0].startswith(said)


def test_a_request_that_is_not_utf_8_is_an_error(explain: Explain) -> None:
    Path("bad.json").write_bytes(b'{"model": "\xff"}')
    assert explain("--request", "bad.json")[2][0] == "bad.json:1:1: invalid JSON: not UTF-8 text"


# -- the file of endpoints


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "e.yaml:1:1: the key 'endpoints' is missing"),
        ("endpoints: [", "e.yaml:1:13: this is not YAML"),
        ("- a", "e.yaml:1:1: expected a mapping, found a list"),
        ("endpoints:\n  - {name: a, address: h}", "e.yaml:2:5: endpoints[0]: the key 'port' is missing"),
        ("endpoints:\n  - {name: a, address: 'http://h', port: 1}", "e.yaml:2:15: endpoints[0].address: expected an IP address or a host name"),
        ("endpoints:\n  - {name: a, address: h, port: 1, metric: {}}", "e.yaml:2:36: endpoints[0].metric: unknown key 'metric'; did you mean"),
        ("endpoints:\n  - {name: a, address: h, port: 1, metrics: {queue: 1}}", "e.yaml:2:46: endpoints[0].metrics.queue: unknown key 'queue'; known: "),
        ("endpoints:\n  - {name: a, address: h, port: 1, metrics: {kvCacheUsage: 40}}", "e.yaml:2:46: endpoints[0].metrics.kvCacheUsage: expected a number from 0 to 1, found 40"),
        ("endpoints:\n  - {name: a, address: h, port: 1, metrics: {waiting: many}}", "e.yaml:2:46: endpoints[0].metrics.waiting: expected a number, found the text 'many'"),
        ("endpoints:\n  - {name: a, address: h, port: 1, inFlight: -1}", "e.yaml:2:36: endpoints[0].inFlight: expected a number from 0 to 100000, found -1"),
        ("endpoints:\n  - {name: a, address: h, port: 1, models: demo}", "e.yaml:2:36: endpoints[0].models: expected a list, found the text 'demo'"),
        ("endpoints:\n  - {name: a, address: h, port: 1, facts: {prefix-hits: yes}}", "e.yaml:2:44: endpoints[0].facts.prefix-hits: expected a number, found the text 'yes'"),
        ("endpoints:\n  - {name: a, address: h, port: 1}\n  - {name: a, address: h, port: 2}", "e.yaml:3:6: endpoints[1].name: two endpoints have the name 'a'"),
        (
            "endpoints:\n  - {name: a, address: h, port: 1, facts: {prefix-hit: 1}}",
            "e.yaml:2:44: endpoints[0].facts.prefix-hit: the configuration has no fact 'prefix-hit' of endpoints; known: prefix-hits/approx-prefix-cache-producer",
        ),
        ("endpoints:\n  - {name: a, address: h, port: 1, facts: {prefix-shape: 1}}", "e.yaml:2:44: endpoints[0].facts.prefix-shape: the configuration has no fact"),
        (
            "endpoints:\n  - {name: a, address: h, port: 1, facts: {WaitingQueueSize/core-metrics-extractor: 1}}",
            "e.yaml:2:44: endpoints[0].facts.WaitingQueueSize/core-metrics-extractor: the fact 'WaitingQueueSize/core-metrics-extractor' is read from the metrics; give it under 'metrics'",
        ),
    ],
)  # fmt: skip
def test_an_error_in_the_file_of_endpoints_is_reported_with_its_place(explain: Explain, text: str, said: str) -> None:
    code, out, errors = explain(endpoints=text)
    assert (code, out, len(errors)) == (1, "", 2)
    assert errors[0].startswith(said)


def test_an_unknown_fact_without_any_known_ones_is_an_error(explain: Explain) -> None:
    endpoints = "endpoints: [{name: a, address: h, port: 1, facts: {price: 1}}]"
    errors = explain(endpoints=endpoints, config="plugins: [{type: queue-scorer}]")[2]
    assert errors[0].endswith("the configuration has no fact 'price' of endpoints; it has to do with no such facts")


def test_all_errors_in_both_files_are_reported_at_once(explain: Explain) -> None:
    code, _, errors = explain(request="[]", endpoints="endpoints:\n  - {name: a}\n  - {port: 0}")
    assert (code, errors[-1]) == (1, "6 errors"), errors


# -- usage


@pytest.mark.parametrize("option", ["--request", "--endpoints", "-c"])
def test_a_missing_file_is_2_and_named(explain: Explain, option: str) -> None:
    code, out, errors = explain(option, "nowhere", endpoints=TWO_IDLE)
    assert (code, out, errors) == (2, "", ["pointsman: nowhere: No such file or directory"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--header", "no colon"], "expected 'Name: value', found 'no colon'"),
        (["--path", "v1"], "expected a path that begins with '/', found 'v1'"),
        (["--seed", "x"], "invalid int value: 'x'"),
    ],
)
def test_wrong_usage_is_2(
    explain: Explain, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        explain(*arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_warnings_and_errors_of_the_configuration_are_reported_as_by_check(explain: Explain) -> None:
    code, out, errors = explain(endpoints=TWO_IDLE, config="plugins: [{type: queue-scorr}]")
    assert (code, out) == (1, "")
    assert "did you mean 'queue-scorer'?" in errors[0]
    several = "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}]}, {name: b, plugins: [{pluginRef: queue-scorer}]}]"
    code, out, errors = explain(endpoints=TWO_IDLE, config=several)
    assert (code, "winner: " in out) == (0, True)
    assert any("warning" in line for line in errors)


# -- the output


def test_on_a_terminal_the_text_is_styled_and_the_same(explained: Explained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.delenv("NO_COLOR", raising=False)
    content = explained(endpoints=THREE)
    coloured = as_tables(content, terminal=True)
    assert "\x1b[1m" in coloured
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()) + "\n"
    assert plain == as_tables(content, terminal=False)


def test_text_of_the_request_is_not_read_as_markup(explain: Explain) -> None:
    out = explain(request={"model": "[red]:smile:", "prompt": "Hello"}, endpoints=TWO_IDLE)[1]
    assert "for the model '[red]:smile:'" in out


def test_half_a_character_in_the_request_is_written_as_an_escape(explain: Explain, explained: Explained) -> None:
    request = '{"model": "\\ud800", "lora_path": "\\ud801", "prompt": "Hello"}'
    data = explained(request=request, endpoints=TWO_IDLE)["request"]
    assert (data["model"], data["adapter"]) == ("\\ud800", "\\ud801")
    assert explain(request=request, endpoints=TWO_IDLE)[0] == 0


def test_a_short_prompt_has_no_blocks_to_count_hits_against(explain: Explain) -> None:
    out = explain(request={"model": "demo", "prompt": "Hello"}, endpoints=THREE)[1]
    assert out.splitlines()[1] == "fact: prefix-shape/approx-prefix-cache-producer: none"


def test_the_documented_example_prints_what_the_documentation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    section = DOCS.read_text().partition("## Why that endpoint\n")[2].partition("\n## ")[0]
    for name, text in re.findall(r"```(?:yaml|json)\n(?:#|//) (\S+)\n(.*?)```", section, re.DOTALL):
        Path(name).write_text(text)
    (console,) = re.findall(r"```console\n\$ pointsman (.*?)\n(.*?)```", section, re.DOTALL)
    assert main(console[0].split()) == 0
    assert capsys.readouterr().out == console[1]


def test_every_key_of_the_json_is_documented(explained: Explained) -> None:
    section = DOCS.read_text().partition("## Why that endpoint\n")[2].partition("\n## ")[0]

    def keys(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, below in value.items():
                yield key
                yield from keys(below) if key not in {"facts", "labels"} else ()
        elif isinstance(value, list):
            for item in value:
                yield from keys(item)

    refused = explained(endpoints=LABELLED.replace("TIER", "iron"), config=ROLES)
    data = {*keys(explained(endpoints=THREE)), *keys(refused), "plugin", "extension_point", "cause"}
    scorers = {"expected-ttft-scorer"}
    assert {key for key in data - scorers if f"`{key}`" not in section} == set()
