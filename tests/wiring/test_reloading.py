"""What a reload keeps and what it builds anew, and that it comes to the same as a cold start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog
from containers.reloading import FIXED, kept_plugins, refuse_fixed, steps_of

from app.observability.logging import set_up_logging
from app.reload import NeedsRestartError
from app.settings.layers import Sources
from containers.application import Application, Checked, catalogue, check
from tests.support.reloads import FINDING, TELLING, reloadable
from tests.support.running import until

REFERENCES = """
from __future__ import annotations
from pointsman import PluginParams, PluginRef, Scorer

class Sum:
    class Params(PluginParams):
        of: PluginRef[Scorer]
        also: tuple[PluginRef[Scorer], ...] = ()

    def __init__(self, params: Params) -> None:
        self.params = params

    def score(self, request, candidates):
        return self.params.of.score(request, candidates)
"""


pytestmark = pytest.mark.usefixtures("logging_as_before")


# -- which plugins are kept


class Configurations:
    """Configurations of one process, loaded one after the other from one file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pointsman.yaml"
        self.sums = folder / "sums.py"
        self.sums.write_text(REFERENCES)
        self._sources = Sources(("builtin:default", str(self.path)))
        self._catalogue = catalogue()

    def load(self, text: str) -> Checked:
        self.path.write_text(text.replace("SUM", f"'{self.sums}:Sum'"))
        self._catalogue.refresh()
        return check(self._sources, self._catalogue)


CHAIN = (
    "plugins: [{name: top, type: SUM, parameters: {of: middle}}, {name: middle, type: SUM, parameters: {of: low}}, "
    "{name: low, type: load-aware-scorer, parameters: {threshold: 100}}, {name: other, type: queue-scorer}]"
)
LISTED = "plugins: [{name: top, type: SUM, parameters: {of: queue-scorer, also: [low]}}, {name: low, type: load-aware-scorer}]"


@pytest.mark.parametrize(
    ("before", "after", "kept", "anew"),
    [
        pytest.param(CHAIN, CHAIN, "top middle low other queue-scorer", "", id="nothing changed"),
        pytest.param(CHAIN, CHAIN.replace("100", "101"), "other queue-scorer", "low middle top", id="what others refer to"),
        pytest.param(CHAIN, CHAIN.replace("of: low", "of: other"), "low other", "middle top", id="refers to another"),
        pytest.param(LISTED, LISTED.replace("scorer}]", "scorer, parameters: {threshold: 9}}]"), "queue-scorer", "low top", id="one of a list"),
        pytest.param(LISTED, LISTED.replace("[low]", "[]"), "low queue-scorer", "top", id="a reference less"),
        pytest.param(CHAIN, CHAIN.replace("type: queue-scorer", "type: running-requests-size-scorer"), "top middle low", "other", id="another class"),
        pytest.param(CHAIN, CHAIN.replace("name: other", "name: another"), "top", "another", id="another name"),
        pytest.param(
            "plugins: [{name: p, type: prefix-cache-scorer}]",
            "plugins: [{name: p, type: prefix-cache-scorer, parameters: {}}]",
            "p",
            "",
            id="no parameters spelt out",
        ),
        pytest.param(
            "plugins: [{name: p, type: load-aware-scorer}]",
            "plugins: [{name: p, type: load-aware-scorer, parameters: {threshold: 128}}]",
            "p",
            "",
            id="a default spelt out",
        ),
        pytest.param(
            "plugins: [{name: p, type: prefix-cache}]",
            "plugins: [{name: p, type: prefix-cache, parameters: {lruIndexerCapacity: 5}}]",
            "queue-scorer",
            "p",
            id="another parameter",
        ),
        pytest.param(
            "schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 2}]}]",
            "schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 9}]}]",
            "queue-scorer kv-cache-utilization-scorer prefix-cache-scorer max-score-picker",
            "",
            id="another weight",
        ),
        pytest.param(
            "plugins: [{type: header-profile-handler}, {name: p, type: prefix-cache}]\n"
            "schedulingProfiles: [{name: default, plugins: [{pluginRef: p}]}, {name: b, plugins: [{pluginRef: queue-scorer}]}]",
            "plugins: [{type: header-profile-handler}, {name: p, type: prefix-cache}]\n"
            "schedulingProfiles: [{name: b, plugins: [{pluginRef: queue-scorer}, {pluginRef: p}]}]",
            "p queue-scorer header-profile-handler",
            "",
            id="moved to another profile",
        ),
        pytest.param(
            "",
            "schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, enabled: false}]}]",
            "queue-scorer max-score-picker",
            "",
            id="switched off in a profile",
        ),
        pytest.param(
            "",
            "plugins: [{type: prefix-cache-scorer, enabled: false}]",
            "queue-scorer max-score-picker metrics-data-source",
            "",
            id="switched off",
        ),
        pytest.param(
            "plugins: [{name: a, type: queue-scorer}, {name: b, type: queue-scorer}]",
            "plugins: [{name: b, type: queue-scorer}, {name: a, type: queue-scorer}]",
            "a b",
            "",
            id="another order",
        ),
    ],
)  # fmt: skip
def test_a_plugin_is_kept_if_class_parameters_and_references_are_the_same(
    before: str, after: str, kept: str, anew: str, tmp_path: Path
) -> None:
    configurations = Configurations(tmp_path)
    old = configurations.load(before)
    generation = old.container().generation()
    new = configurations.load(after)
    found = kept_plugins(old.plan, generation, new.plan)
    built = generation.plugins.providers
    assert all(found[name] is built[name]() for name in kept.split())
    assert set(anew.split()) <= new.plan.plugins.keys() - found.keys()


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        pytest.param(REFERENCES, True, id="the same"),
        pytest.param(REFERENCES + "\n# a remark\n", False, id="another"),
    ],
)
def test_a_plugin_in_a_file_is_kept_as_long_as_the_file_holds_the_same(
    content: str, kept: bool, tmp_path: Path
) -> None:
    configurations = Configurations(tmp_path)
    old = configurations.load(CHAIN)
    generation = old.container().generation()
    configurations.sums.unlink()
    configurations.sums.write_text(content)
    names = kept_plugins(old.plan, generation, configurations.load(CHAIN).plan).keys()
    assert ({"top", "middle"} <= names, {"low", "other"} <= names) == (kept, True)


def test_a_plugin_file_that_is_as_it_was_before_gives_the_class_that_it_gave_before(tmp_path: Path) -> None:
    configurations = Configurations(tmp_path)
    first = configurations.load(CHAIN).plan.plugins["top"].type.cls
    configurations.sums.write_text(REFERENCES + "\n# a remark\n")
    second = configurations.load(CHAIN).plan.plugins["top"].type.cls
    configurations.sums.write_text(REFERENCES)
    assert (configurations.load(CHAIN).plan.plugins["top"].type.cls is first, second is first) == (True, False)


def test_no_steps_are_taken_for_what_is_the_same(tmp_path: Path) -> None:
    configurations = Configurations(tmp_path)
    app = configurations.load(CHAIN).container()
    assert steps_of(app)(configurations.load(CHAIN + "  # a remark")) is None


def test_a_plugin_file_of_other_content_is_a_change_though_the_settings_are_the_same(tmp_path: Path) -> None:
    configurations = Configurations(tmp_path)
    app = configurations.load(CHAIN).container()
    configurations.sums.write_text(REFERENCES + "\n# a remark\n")
    assert steps_of(app)(configurations.load(CHAIN)) is not None


# -- what needs a restart


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("simulation.servers", "1"),
        ("simulation.model", "other"),
        ("transports.http.enabled", "false"),
        ("transports.http.limits.headerBytes", "8Ki"),
        ("transports.http.timeouts.keepAlive", "5s"),
        ("transports.admin.enabled", "false"),
        ("reload.watch", "false"),
    ],
)
def test_what_a_running_process_can_t_change_is_named(path: str, value: str) -> None:
    before, after = (check(Sources(sets=sets)).configuration.settings for sets in ([], [f"{path}={value}"]))
    with pytest.raises(NeedsRestartError) as caught:
        refuse_fixed(before, after)
    (named,) = caught.value.keys
    assert path.startswith(named)
    assert str(caught.value) == f"needs restart: {named}"


def test_every_fixed_value_is_a_key_of_the_schema() -> None:
    shown = check(Sources()).configuration.settings.model_dump(by_alias=True)
    for path in FIXED:
        value: Any = shown
        for key in path.split("."):
            value = value[key]
        assert value is not None


# -- equal to a cold start


def observable(container: Application) -> dict[str, object]:
    """What a configuration comes to in all parts of a process."""
    generation, upstream = generation, generation.upstream()
    router, monitor = generation.router(), generation.monitor()
    pipeline, http, admin = router.pipeline, container.http_server(), container.admin_server()
    return {
        "show": container.effective(),
        "settings": container.settings(),
        "providers": {name: type(provider()).__name__ for name, provider in generation.plugins.providers.items()},
        "profiles": {
            name: (
                [(one.name, type(one.plugin)) for one in (*profile._filters, *profile._scorers, profile._picker)],
                profile._weights.tolist(),
            )
            for name, profile in pipeline.scheduler._profiles.items()
        },
        "profile picker": (pipeline.scheduler._picker_name, type(pipeline.scheduler._picker)),
        "producers": [one.name for one in pipeline.producers],
        "observers": {
            point: [one.name for one in getattr(pipeline, point)]
            for point in ("on_scheduled", "on_first_byte", "on_finished", "on_refused")
        },
        "parsers": (
            {end: name for end, (name, _) in pipeline.parsers._by_end.items()},
            pipeline.parsers._rest and pipeline.parsers._rest[0],
        ),
        "bindings": [(type(b.source), b.source.interval, [type(e) for e in b.extractors]) for b in monitor._bindings],
        "monitor": monitor._options,
        "stale after": generation.pool()._stale_after,
        "endpoints": [
            (s.endpoint.name, s.endpoint.authority, s.endpoint.metrics_authority, dict(s.endpoint.labels))
            for s in generation.pool().statuses()
        ],
        "watched": sorted(monitor._watches),
        "discovery": type(generation.discovery_runner()._run.discovery),
        "limits": process.http_server().admission.limits,
        "upstream": (upstream.patience, upstream.limits),
        "router": (router.retries, router.producer_deadline),
        "listeners": [(server.listener._address, len(server.listener.opened)) for server in (http, admin)],
        "allowed": admin._allowed,
        "drain delay": runner().drain_delay,
        "alive": sorted(part.name for part in container.plugins_alive().started),
        "metrics": sorted(container.plugin_metrics()._registries),
        "log level": structlog.get_config()["wrapper_class"],
        "log form": type(structlog.get_config()["processors"][-1]),
        "settle": process.reloader()._settle(),
        "files": sorted(process.reloader()._files()),
    }


OLD = f"""
plugins:
  - {{name: told, type: '{TELLING}'}}
  - {{type: load-aware-scorer}}
schedulingProfiles:
  - {{name: default, plugins: [{{pluginRef: queue-scorer, weight: 4}}, {{pluginRef: told}}]}}
pool:
  endpoints: [{{name: a, address: 127.0.0.1, port: 1}}, {{name: b, address: 127.0.0.1, port: 2, labels: {{zone: x}}}}]
  scrape: {{interval: 2s}}
routing: {{producerDeadline: 1s}}
"""


@pytest.mark.parametrize(
    "new",
    [
        pytest.param("", id="everything gone"),
        pytest.param(f"plugins: [{{name: told, type: '{TELLING}', parameters: {{note: x}}}}, {{name: more, type: '{TELLING}'}}]\n", id="plugins"),
        pytest.param("plugins: [{type: inflight-load-producer}, {name: p, type: prefix-cache}]\n", id="producers"),
        pytest.param("plugins: [{type: random-picker}, {type: max-score-picker, enabled: false}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]\n", id="picker"),
        pytest.param(
            "plugins: [{type: header-profile-handler}, {type: decode-filter}]\nschedulingProfiles:\n"
            "  - {name: default, plugins: [{pluginRef: queue-scorer, weight: 1}]}\n"
            "  - {name: other, plugins: [{pluginRef: decode-filter}, {pluginRef: kv-cache-utilization-scorer, weight: 3}]}\n",
            id="profiles",
        ),
        pytest.param(OLD.replace("port: 2", "port: 3").replace("zone: x", "zone: y"), id="an endpoint changed"),
        pytest.param(OLD.replace("name: a, address", "name: c, engine: sglang, metricsPort: 9, address"), id="an endpoint more"),
        pytest.param(OLD.replace("port: 1}", "port: 1, enabled: false}"), id="an endpoint switched off"),
        pytest.param("pool: {endpoints: [{name: b, address: 127.0.0.1, port: 2}, {name: a, address: 127.0.0.1, port: 1}]}\n", id="endpoints in another order"),
        pytest.param("plugins: [{type: file-discovery, parameters: {path: ENDPOINTS}}]\ndataLayer: {discovery: {pluginRef: file-discovery}}\n", id="discovery by file"),
        pytest.param(f"plugins: [{{name: f, type: '{FINDING}'}}]\ndataLayer: {{discovery: {{pluginRef: f}}}}\n", id="discovery by a class"),
        pytest.param("pool: {scrape: {interval: 3s, timeout: 2s, staleAfter: 9s}, models: {interval: 0s}}\n", id="scraping"),
        pytest.param("transports: {http: {timeouts: {connect: 1s, response: 7s, idle: 8s, body: 9s}}}\n", id="timeouts"),
        pytest.param("transports: {http: {limits: {bodyBytes: 1Mi, inFlight: 3}}}\n", id="limits"),
        pytest.param("transports: {http: {retries: 7}}\nrouting: {producerDeadline: 3s}\n", id="retries"),
        pytest.param("observability: {logging: {access: true, level: warning, format: json}}\n", id="logging"),
        pytest.param("transports: {admin: {allowFrom: [10.0.0.0/8, '::1']}}\n", id="who may look"),
        pytest.param("transports: {http: {bind: 127.0.0.2}, admin: {bind: 127.0.0.3}}\n", id="binds"),
        pytest.param("shutdown: {delay: 10ms, timeout: 20ms}\nreload: {settle: 3s}\n", id="the process"),
        pytest.param("requestHandler: {parsers: [{pluginRef: anthropic-parser}]}\n", id="parsers"),
        pytest.param("dataLayer: {injectDefaults: false}\nplugins: [{type: metrics-data-source, parameters: {path: /other, interval: 4s}}]\n", id="a source's parameters"),
        pytest.param("featureGates: [flowControl=false]\n", id="feature gates"),
    ],
)  # fmt: skip
async def test_a_reload_comes_to_the_same_as_a_cold_start(new: str, tmp_path: Path) -> None:
    (tmp_path / "endpoints.yaml").write_text("endpoints: [{name: f, address: 127.0.0.1, port: 7}]")
    new = new.replace("ENDPOINTS", str(tmp_path / "endpoints.yaml"))
    async with reloadable(tmp_path, OLD) as app:
        outcome = await app.reload(new)
        assert (outcome.done, outcome.changed) == (True, True), str(outcome)
        await until(lambda: not app.process.reloader()._tasks)
        reloaded = observable(app.container)
    structlog.reset_defaults()
    async with reloadable(tmp_path, new) as app:
        style = app.container.settings().observability.logging
        set_up_logging(format=style.format, level=style.level)  # what `serve` does
        cold = observable(app.container)
    assert reloaded == cold
