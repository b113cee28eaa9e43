"""What runs in which order is said by the configuration and not by how Python hashes text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SEEDS = ["0", "1", "2", "3"]

TELLING = """
import json, sys
from app.settings.layers import Sources
from app.extension import Lifecycle
from containers.application import Application, check

def told(path):
    checked = check(Sources((path,)))
    generation = Application(checked).generation
    observers = generation.observers()
    points = ("on_scheduled", "on_first_token", "on_finished", "on_refused")
    return {
        "plugins": list(checked.plan.plugins),
        "built": list(generation.plugins.providers),
        "profiles": [[p.name, *p.filters, *p.scorers, p.picker] for p in checked.plan.profiles],
        "planned producers": list(checked.plan.producers),
        "parsers": list(checked.plan.parsers),
        "sources": [[s.source, *s.extractors] for s in checked.plan.sources],
        **{point: [named.name for named in getattr(observers, point)] for point in points},
        "producers": [named.name for named in generation.producers()],
        "lifecycles": [one.name for one in generation.named_plugins() if isinstance(one.plugin, Lifecycle)],
        "notes": list(checked.plan.notes),
        "faults": [str(fault) for fault in checked.configuration.faults.all],
        "effective": checked.effective(),
    }

print(json.dumps([told(path) for path in sys.argv[1:]]))
"""

PLUGINS = """
from pointsman import IN_FLIGHT_REQUESTS, PREFIX_HITS, PREFIX_SHAPE, UNCACHED_TOKENS, FactKey, PluginName, PluginParams

def fact(name):
    return FactKey("order-" + name, name, 0)

class Producing:
    '''Gives a fact of its name, and waits for those it is told to.'''

    class Params(PluginParams):
        after: tuple[str, ...] = ()

    def __init__(self, params: Params, name: PluginName) -> None: ...

    @classmethod
    def wants(cls, params):
        return tuple(fact(name) for name in params.after)

    @classmethod
    def produces(cls, name, params):
        return (fact(name),)

    async def produce(self, request, pool): return {}
    def on_scheduled(self, request, decision): ...
    def on_finished(self, request, decision, outcome): ...
    async def start(self): ...
    async def stop(self): ...

class Scoring:
    '''Needs facts that nothing configured gives.'''

    needs = NEEDS

    def score(self, request, candidates): return [1.0] * len(candidates)
    def on_first_token(self, request, decision): ...
    def on_refused(self, request, reason): ...
"""

NAMES = ["india", "alpha", "hotel", "bravo", "golf", "charlie", "foxtrot", "delta", "echo"]


def configuration(plugins: Path) -> str:
    """Plugins of all kinds, some added by nobody but the plan, in two profiles; three producers wait for others."""
    after = {"alpha": "[golf, echo, hotel]", "india": "[echo, alpha]", "golf": "[delta]"}
    producers = "\n".join(
        f"  - {{name: {name}, type: '{plugins}:Producing', parameters: {{after: {after.get(name, '[]')}}}}}"
        for name in NAMES
    )
    return f"""
plugins:
{producers}
  - {{name: needing, type: '{plugins}:Scoring'}}
  - {{name: needing-too, type: '{plugins}:Scoring'}}
  - {{type: umbrella-observer}}
  - {{type: acme-observer}}
  - {{type: decode-filter}}
  - {{type: running-requests-size-scorer}}
  - {{type: random-picker}}
schedulingProfiles:
  - {{name: other, plugins: [{{pluginRef: needing-too}}, {{pluginRef: decode-filter}}, {{pluginRef: random-picker}}]}}
  - {{name: default, plugins: [{{pluginRef: needing}}, {{pluginRef: running-requests-size-scorer}}]}}
"""


def install(site: Path) -> None:
    """Two packages with an observer each."""
    for package in ("acme", "umbrella"):
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pointsman.plugins]\n{package}-observer = {package}_order:Seeing\n")
        (site / f"{package}_order.py").write_text(
            "class Seeing:\n    def on_scheduled(self, request, decision): ...\n"
            "    def on_finished(self, request, decision, outcome): ...\n"
        )


FACTS = "PREFIX_HITS, PREFIX_SHAPE, IN_FLIGHT_REQUESTS, UNCACHED_TOKENS"
WAYS = {"tuple": f"({FACTS})", "set": f"frozenset([{FACTS}])"}
"""How a plugin may write down what it needs."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What processes with different hash seeds say of the same configuration, for each of `WAYS`."""
    folder = tmp_path_factory.mktemp("order")
    install(folder / "site")
    for way, needs in WAYS.items():
        plugins = folder / f"{way}.py"
        plugins.write_text(PLUGINS.replace("NEEDS", needs))
        (folder / f"{way}.yaml").write_text(configuration(plugins))
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(folder / "site")])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", TELLING, *(folder / f"{way}.yaml" for way in WAYS)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
        )
        for seed in SEEDS
    ]  # fmt: skip
    said = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(SEEDS)
    return dict(zip(WAYS, map(list, zip(*map(json.loads, said), strict=True)), strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_everything_comes_in_the_same_order_with_any_hash_seed(told: dict[str, list[dict[str, Any]]], way: str) -> None:
    first, *others = told[way]
    for other in others:
        assert [key for key in first if other[key] != first[key]] == []


def test_plugins_come_in_the_order_listed_and_producers_after_those_they_wait_for(
    told: dict[str, list[dict[str, Any]]],
) -> None:
    for said in (said for way in WAYS for said in told[way]):
        assert [name for name in said["plugins"] if name in NAMES] == NAMES
        for hook in ("on_scheduled", "on_finished", "lifecycles"):
            assert [name for name in said[hook] if name in NAMES] == NAMES
        assert [n for n in said["on_scheduled"] if "observer" in n] == ["umbrella-observer", "acme-observer"]
        assert said["on_first_token"][:2] == said["on_refused"][:2] == ["needing", "needing-too"]
        producers = said["producers"]
        assert producers == said["planned producers"]
        assert set(producers) == {*NAMES, "approx-prefix-cache-producer", "inflight-load-producer"}
        place = producers.index
        assert max(place("golf"), place("echo"), place("hotel")) < place("alpha") < place("india")
        assert place("delta") < place("golf")
        assert place("approx-prefix-cache-producer") < place("inflight-load-producer")
