"""What changes from one configuration to the next, and what a process can't change."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.checking import Checked
from app.planning.comparing import unchanged_plugins
from app.settings.layers import Sources, shipped
from app.settings.reading import SettingsReader
from app.settings.sections import Simulation
from containers import options
from containers.application import Application, catalogue, load

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


# -- which plugins are unchanged


class Configurations:
    """Configurations of one process, loaded one after the other from one file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pointsman.yaml"
        self.sums = folder / "sums.py"
        self.sums.write_text(REFERENCES)
        self._sources = Sources((OLDER, str(self.path)))
        self._catalogue = catalogue()

    def load(self, text: str) -> Checked:
        self.path.write_text(text.replace("SUM", f"'{self.sums}:Sum'"))
        self._catalogue.refresh()
        return load(self._sources, self._catalogue)


OLDER = str(shipped("examples/queue-kv-prefix"))
"""The profile of several scorers."""

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
def test_a_plugin_is_unchanged_if_class_parameters_and_references_are(
    before: str, after: str, kept: str, anew: str, tmp_path: Path
) -> None:
    configurations = Configurations(tmp_path)
    old, new = configurations.load(before).plan, configurations.load(after).plan
    unchanged = unchanged_plugins(old, new)
    assert set(kept.split()) <= unchanged
    assert set(anew.split()) <= new.plugins.keys() - unchanged


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        pytest.param(REFERENCES, True, id="the same"),
        pytest.param(REFERENCES + "\n# a remark\n", False, id="another"),
    ],
)
def test_a_plugin_in_a_file_is_unchanged_as_long_as_the_file_holds_the_same(
    content: str, kept: bool, tmp_path: Path
) -> None:
    configurations = Configurations(tmp_path)
    old = configurations.load(CHAIN).plan
    configurations.sums.unlink()
    configurations.sums.write_text(content)
    names = unchanged_plugins(old, configurations.load(CHAIN).plan)
    assert ({"top", "middle"} <= names, {"low", "other"} <= names) == (kept, True)


def test_a_plugin_file_that_is_as_it_was_before_gives_the_class_that_it_gave_before(tmp_path: Path) -> None:
    configurations = Configurations(tmp_path)
    first = configurations.load(CHAIN).plan.plugins["top"].type.cls
    configurations.sums.write_text(REFERENCES + "\n# a remark\n")
    second = configurations.load(CHAIN).plan.plugins["top"].type.cls
    configurations.sums.write_text(REFERENCES)
    assert (configurations.load(CHAIN).plan.plugins["top"].type.cls is first, second is first) == (True, False)


@pytest.mark.parametrize(
    ("sums", "text", "same"),
    [
        pytest.param(REFERENCES, CHAIN + "  # a remark", True, id="a remark in the YAML"),
        pytest.param(REFERENCES + "\n# a remark\n", CHAIN, False, id="a remark in a plugin file"),
        pytest.param(REFERENCES, CHAIN.replace("100", "101"), False, id="a parameter"),
        pytest.param(REFERENCES, CHAIN + "\nrouting: {producerDeadline: 3s}", False, id="a setting"),
    ],
)
def test_whether_a_configuration_is_the_same(sums: str, text: str, same: bool, tmp_path: Path) -> None:
    configurations = Configurations(tmp_path)
    before = configurations.load(CHAIN)
    configurations.sums.write_text(sums)
    assert configurations.load(text).is_same_as(before) is same


# -- what needs a restart


@pytest.mark.parametrize(
    ("base", "changes", "keys"),
    [
        pytest.param((), ("simulation.servers=1",), ["simulation.servers"], id="the embedded fleet"),
        pytest.param((), ("simulation.model=x",), [], id="a model of no servers"),
        pytest.param(("simulation.servers=1",), ("simulation.model=x",), ["simulation.model"], id="its model"),
        pytest.param((), ("transports.envoy.enabled=true",), ["transports.envoy.enabled"], id="an Envoy of our own"),
        pytest.param(
            ("transports.envoy.enabled=true",),
            ("transports.http.retries=5", "transports.http.timeouts.keepAlive=9s"),
            ["transports.http.retries", "transports.http.timeouts.keepAlive"],
            id="what an Envoy serves by",
        ),
        pytest.param((), ("transports.http.retries=5",), [], id="the same without an Envoy"),
        pytest.param((), ("transports.envoy.binary=/x", "transports.envoy.concurrency=3"), [], id="no Envoy's options"),
        pytest.param((), ("pool.name=x", "transports.admin.enabled=false"), [], id="nothing that the process reads"),
    ],
)
def test_what_the_process_reads_needs_a_restart(
    base: tuple[str, ...], changes: tuple[str, ...], keys: list[str]
) -> None:
    before, after = (load(Sources(sets=sets)).settings for sets in (base, (*base, *changes)))
    reader = SettingsReader(before)
    for read in (options.simulated_servers, options.envoy_config, options.envoy_files):
        reader.read(read)
    assert list(reader.needing_restart(after)) == keys


def test_the_process_container_reads_settings_by_the_reader_alone() -> None:
    application = Application(load(Sources()))
    application.runner()
    read = {path for one in application.process.settings_reader()._reads for path in one.paths}
    simulation = {f"simulation.{name}" for name in Simulation.model_fields}
    assert read <= simulation | {"transports.envoy.enabled"}
    assert {"simulation.servers", "transports.envoy.enabled"} <= read
