"""`show --as endpointpickerconfig`: any form in the current one, with the same meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.__main__ import main
from app.checking import Checked
from app.settings.errors import Faults
from app.settings.reader import read_yaml
from tests.config.given import checked

EXAMPLES = sorted(Path(__file__).parents[2].joinpath("config", "examples").glob("*.yaml"))

FORMS = {
    "references": """
plugin_references:
- {name: mine, plugin: prefix-cache, parameters: {hash-block-size: 32}}
- {name: filter, plugin: load-aware-filter}
scheduling_profiles:
- name: default
  plugin-references: [{name: filter}, {name: mine, weight: 20}]
""",
    "in place": """
endpointPickingProfiles:
- prefill: [prefill-endpoints, {name: prefix-cache, weight: 2, args: {LRUIndexerSize: 5000}}, server-queue-length]
- decode: [decode-endpoints, kv-cache-util]
""",
    "sections": """
plugins: [{name: shared, type: queue-scorer}]
schedulingProfiles:
- name: default
  filters: [decode-endpoints]
  scorers: [{name: shared, weight: 3}, {type: prefix-cache, args: {max-prefix-blocks-to-match: 7}}]
  picker: {type: random-picker, args: {maxNumOfEndpoints: 2}}
""",
    "the current one": """
plugins: [{type: queue-scorer}, {type: random-picker}, {type: passthrough-parser}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 0}, {pluginRef: random-picker}]}]
requestHandler: {parsers: [{pluginRef: passthrough-parser}]}
dataLayer: {injectDefaults: false, sources: [{pluginRef: metrics-data-source}]}
""".replace("plugins: [{type: queue-scorer}", "plugins: [{type: metrics-data-source}, {type: queue-scorer}", 1),
    "switched off": """
plugins: [{type: queue-scorer, enabled: false}, {type: kv-cache-utilization-scorer}, {type: decode-filter}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}, {pluginRef: kv-cache-utilization-scorer}, {pluginRef: decode-filter, enabled: false}]
- {name: other, enabled: false}
""",
    "deprecated": """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: by-label-selector, parameters: {matchLabels: {a: b}}}]
parser: {pluginRef: openai-parser}
""",
    "our own sections": "pool: {endpoints: [{name: a, address: 10.0.0.1, port: 8000}]}\nplugins: [{type: queue-scorer}]\n",
    "nothing": "",
}


def meaning(configuration: Checked) -> object:
    plan = configuration.plan
    plugins = {name: (plugin.type.cls, plugin.params) for name, plugin in plan.plugins.items()}
    return plugins, plan.profiles, plan.profile_picker, plan.parsers, plan.sources, plan.producers


@pytest.mark.parametrize("form", FORMS)
def test_it_means_the_same_and_is_of_the_current_form(form: str) -> None:
    before = checked(FORMS[form])
    text = before.converted()
    after = checked(text)
    assert meaning(after) == meaning(before)
    assert after.configuration.settings.pool == before.configuration.settings.pool
    keys = read_yaml(text, "f", Faults()).entries.keys()
    assert {"apiVersion", "kind"} <= keys
    assert not keys & {"plugin_references", "endpointPickingProfiles", "parser", "saturationDetector"}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_converted_stays_when_converted_again(form: str) -> None:
    text = checked(FORMS[form]).converted()
    assert checked(text).converted() == text


@pytest.mark.parametrize("form", FORMS)
def test_what_only_we_read_is_not_in_it_without_need(form: str) -> None:
    assert not [
        word
        for word in ("enabled", "as:", "type: by-label-selector", "type: decode-endpoints")
        if word in checked(FORMS[form]).converted()
    ]


def test_defaults_are_not_in_it() -> None:
    assert checked("plugins: [{type: queue-scorer}]").converted() == (
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n  - type: queue-scorer\n"
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_command_converts_a_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--as", "endpointpickerconfig", "-c", str(path)]) == 0
    text = capsys.readouterr().out
    assert checked(text).converted() == text


def test_a_secret_parameter_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "secretive.py"
    file.write_text(
        "from pydantic import SecretStr\nfrom pointsman import PluginParams\n"
        "class Secretive:\n    class Params(PluginParams):\n        api_key: SecretStr = SecretStr('')\n"
        "    def __init__(self, params: Params) -> None: ...\n"
        "    def score(self, request, candidates): return [0.0] * len(candidates)\n",
        encoding="utf-8",
    )
    text = checked(f"plugins: [{{type: '{file}:Secretive', parameters: {{apiKey: hunter2}}}}]").converted()
    assert "apiKey" in text
    assert "hunter2" not in text
