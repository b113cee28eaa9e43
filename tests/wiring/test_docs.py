"""The examples in the documentation work as they stand there."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.commands import go_flags, serve
from app.routing.in_flight import InFlightRequests
from app.settings.layers import Sources
from app.transports.envoy.binary import find_binary
from containers.application import Application, check
from pointsman.testing import check_scorer, make_candidates, make_decision, make_endpoint, make_request

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
WRITING = (ROOT / "docs" / "writing-a-plugin.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readmes_plugin_runs_from_the_readmes_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (plugin,) = blocks(README, "python")
    (tmp_path / "cheapest.py").write_text(plugin)
    (configuration,) = [block for block in blocks(README, "yaml") if "cheapest" in block]
    scheduler = Application(check(Sources(text=configuration))).generation.scheduler()
    dear, cheap = make_endpoint("dear", labels={"price": "2"}), make_endpoint("cheap", labels={"price": "1"})
    assert scheduler.schedule(make_request(), make_candidates(dear, cheap)).endpoint is cheap


@pytest.mark.parametrize("overlay", [b for b in blocks(README, "yaml") if "cheapest" not in b])
def test_every_overlay_of_the_readme_is_fine_over_the_defaults(overlay: str) -> None:
    assert not check(Sources(("builtin:default",), overlay)).configuration.faults.warnings


def test_the_guides_plugin_passes_the_guides_test() -> None:
    names: dict[str, object] = {"check_scorer": check_scorer}
    for block in blocks(WRITING, "python"):
        exec(block, names)
    names["test_patient_scorer"]()  # type: ignore[operator]


def guides_plugin(name: str, tmp_path: Path) -> Any:
    """A class of the guide, once it was checked as a plugin of a configuration."""
    (block,) = [block for block in blocks(WRITING, "python") if f"class {name}" in block]
    path = tmp_path / "guide.py"
    path.write_text(block)
    container = Application(check(Sources(text=f"plugins: [{{name: guide, type: '{path}:{name}'}}]"))).generation
    return type(container.plugins["guide"]())


def test_the_guides_learning_plugin_keeps_what_it_learnt(tmp_path: Path) -> None:
    cls = guides_plugin("SameModel", tmp_path)
    predecessor, successor = cls(), cls()
    predecessor.on_scheduled(make_request(model="demo"), make_decision("b"))
    successor.inherit_from(predecessor)
    assert successor.score(make_request(model="demo"), make_candidates("a", "b")) == [0, 1]


async def test_the_guides_plugin_that_follows_requests_counts_those_in_flight(tmp_path: Path) -> None:
    in_flight = InFlightRequests()
    before = in_flight.begin(make_request("x" * 40), make_decision("a"))
    plugin = guides_plugin("PromptLoad", tmp_path)(in_flight, "load")
    await plugin.start()
    during = in_flight.begin(make_request("x" * 80), make_decision("a"))
    assert plugin.score(make_request(), make_candidates("a", "b")) == [1 / 31, 1]
    in_flight.first_token(before, exact=True)
    in_flight.end(before)
    assert plugin.score(make_request(), make_candidates("a", "b")) == [1 / 21, 1]
    in_flight.end(during)
    await plugin.stop()
    in_flight.begin(make_request(), make_decision("a"))
    assert plugin.score(make_request(), make_candidates("a", "b")) == [1, 1]


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


GATEWAYS = ROOT / "docs" / "gateways"


@pytest.mark.parametrize("overlay", blocks((ROOT / "docs" / "gateways.md").read_text(), "yaml"))
def test_every_overlay_of_the_page_on_gateways_is_fine_over_the_defaults(overlay: str) -> None:
    assert not check(Sources(("builtin:default",), overlay)).configuration.faults.warnings


def test_the_envoy_configuration_is_one_that_envoy_takes() -> None:
    command = [str(find_binary("")), "--mode", "validate", "-l", "error", "-c", str(GATEWAYS / "envoy.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_picker_in_the_manifests_starts_with_the_arguments_that_stand_there(tmp_path: Path) -> None:
    (tmp_path / "endpoints.yaml").write_text("endpoints: []")
    manifests = {each["kind"]: each for each in yaml.safe_load_all((GATEWAYS / "kubernetes.yaml").read_text())}
    (picker,) = manifests["Deployment"]["spec"]["template"]["spec"]["containers"]
    parser = argparse.ArgumentParser()
    serve.add(parser)
    arguments = parser.parse_args(picker["args"][1:])
    text = arguments.text.replace("/endpoints/", f"{tmp_path}/")
    sources = Sources(tuple(arguments.files), text, {}, tuple(go_flags.sets_of(arguments)))
    checked = check(sources)
    assert not checked.configuration.faults.warnings
    transports, pool = checked.configuration.settings.transports, checked.configuration.settings.pool
    assert (transports.http.enabled, transports.ext_proc.enabled, pool.name) == (False, True, "qwen")
    ports = {port["containerPort"] for port in picker["ports"]}
    assert ports == {transports.ext_proc.port, transports.ext_proc.health_port, transports.admin.port}
    assert manifests["InferencePool"]["spec"]["endpointPickerRef"]["port"]["number"] == transports.ext_proc.port
