"""What the container of a configuration promises: sharing, references, and that every provider can be built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from dependency_injector import providers

from app.domain.errors import PluginError
from app.routing.router import Router
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources, shipped
from containers.application import Application, check, load
from containers.generation import GenerationContainer
from containers.overriding import Plugins
from pointsman.testing import FakeClock, make_candidates, make_endpoint, make_request

TWO_PROFILES = """
plugins:
  - {name: shared, type: queue-scorer}
  - {type: max-score-picker}
  - {type: header-profile-handler}
schedulingProfiles:
  - {name: a, plugins: [{pluginRef: shared}, {pluginRef: max-score-picker}]}
  - {name: b, plugins: [{pluginRef: shared, weight: 2}]}
"""

REFERENCES = '''
from __future__ import annotations
from collections.abc import Sequence
from pointsman import PluginParams, PluginRef, Scorer, plugin

class Nested(PluginParams):
    others: tuple[PluginRef[Scorer], ...] = ()

@plugin("test-sum")
class Sum:
    """Adds up what other scorers say."""

    class Params(PluginParams):
        first: PluginRef[Scorer]
        nested: Nested = Nested()
        maybe: PluginRef[Scorer] | None = None

    def __init__(self, params: Params) -> None:
        self.params = params

    def score(self, request, candidates):
        return self.params.first.score(request, candidates)
'''


def container_of(text: str) -> GenerationContainer:
    """The container of a configuration, with nothing built yet."""
    return Application(load(Sources(text=text))).generation


def pick(container: GenerationContainer, profile: str = "a") -> str:
    """The endpoint that a request for `profile` gets."""
    request = make_request(headers={"EPP-Profile": profile})
    return container.scheduler().schedule(request, make_candidates("x", "y", "z")).endpoint.name


def test_two_profiles_that_name_one_plugin_share_one_object() -> None:
    profiles = container_of(TWO_PROFILES).profiles()
    assert profiles["a"]._scorers[0].plugin is profiles["b"]._scorers[0].plugin


def test_profiles_are_made_anew_and_their_plugins_are_not() -> None:
    container = container_of(TWO_PROFILES)
    first, second = container.profiles()["a"], container.profiles()["a"]
    assert first is not second
    assert first._scorers[0].plugin is second._scorers[0].plugin


@pytest.mark.parametrize(
    "name", ["parent", "wire", "providers", "plugins", "override", "provided", "cls", "a b", "ünï/côde", "__class__"]
)
def test_a_plugin_may_have_any_name(name: str) -> None:
    container = container_of(f"""
plugins: [{{name: "{name}", type: queue-scorer}}]
schedulingProfiles: [{{name: "{name}", plugins: [{{pluginRef: "{name}"}}]}}]
""")
    result = container.scheduler().schedule(make_request(), make_candidates("x"))
    assert (result.primary, result.results[name].scorers) == (name, (name,))


def test_a_parameter_that_names_a_plugin_becomes_that_plugin(tmp_path: Path) -> None:
    path = tmp_path / "references.py"
    path.write_text(REFERENCES)
    plugins = container_of(f"""
plugins:
  - {{name: sum, type: '{path}:Sum', parameters: {{first: q, nested: {{others: [q, kv]}}, maybe: kv}}}}
  - {{name: q, type: queue-scorer}}
  - {{name: kv, type: kv-cache-utilization-scorer}}
""").plugins
    params, q, kv = plugins["sum"]().params, plugins["q"](), plugins["kv"]()
    assert (params.first, params.nested.others, params.maybe) == (q, (q, kv), kv)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        pytest.param("{first: nobody}", "no plugin is named 'nobody'", id="missing"),
        pytest.param("{first: max-score-picker}", "must be a Scorer", id="another kind"),
        pytest.param("{first: off}", "is disabled", id="disabled"),
        pytest.param("{first: sum}", "sum -> sum", id="itself"),
    ],
)
def test_a_parameter_that_names_no_such_plugin_is_a_fault(tmp_path: Path, parameters: str, message: str) -> None:
    path = tmp_path / "references.py"
    path.write_text(REFERENCES)
    text = f"""
plugins:
  - {{name: sum, type: '{path}:Sum', parameters: {parameters}}}
  - {{type: max-score-picker}}
  - {{name: off, type: queue-scorer, enabled: false}}
"""
    with pytest.raises(ConfigurationError, match=message):
        check(Sources(text=text))


def test_a_plugin_in_a_file_of_its_own_needs_no_change_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "favourite.py"
    path.write_text(
        "class Favourite:\n"
        "    '''Likes the second one.'''\n"
        "    def score(self, request, candidates):\n"
        "        return [float(endpoint.name == 'y') for endpoint in candidates]\n"
    )
    assert pick(container_of(f"plugins: [{{type: '{path}:Favourite'}}]")) == "y"


@pytest.mark.parametrize("layers", [("default",), ("default", "dev"), ("default", "prod")], ids=" + ".join)
async def test_every_provider_of_the_shipped_configurations_is_built_once(
    layers: tuple[str, ...], tmp_path: Path
) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("endpoints: []")
    sets = [f"plugins[endpoints].parameters.path={endpoints}"] if "prod" in layers else []
    application = Application(load(Sources(tuple(f"builtin:{name}" for name in layers), sets=sets)))
    application.runner()
    every = [
        provider for container in (application.process, application.generation) for provider in container.traverse()
    ]
    built = [provider() for provider in every if not isinstance(provider, Plugins) and _has_arguments(provider)]
    assert len(built) > 100
    assert not [value for value in built if hasattr(value, "__await__")]


def _has_arguments(provider: providers.Provider[object]) -> bool:
    """Whether it can be called as it is: the recipes that a plan fills in can't where it has nothing to fill in."""
    return not (isinstance(provider, providers.Factory) and provider.cls is None)


def test_every_shipped_file_is_among_those_built() -> None:
    assert {path.stem for path in shipped("default").parent.glob("*.yaml")} == {"default", "dev", "prod"}


def test_the_pytest_plugin_gives_a_container_with_a_clock_of_the_tests(
    pointsman_container: GenerationContainer,
) -> None:
    assert isinstance(pointsman_container.clock(), FakeClock)
    assert isinstance(pointsman_container.router(), Router)


async def test_a_router_from_the_container_decides(pointsman_container: GenerationContainer) -> None:
    pointsman_container.pool().replace_all([make_endpoint("a")])
    async with pointsman_container.router().route(make_request()) as route:
        assert route.endpoint.name == "a"
        assert pointsman_container.in_flight().total == 1
    assert pointsman_container.in_flight().total == 0


def test_what_a_picker_picks_must_be_a_candidate() -> None:
    class Other:
        def pick(self, request, scored):
            return (make_endpoint("elsewhere"),)

    container = container_of(TWO_PROFILES)
    with container.plugins["max-score-picker"].override(Other()), pytest.raises(PluginError, match="no candidate"):
        pick(container)


def test_two_instances_of_a_plugin_with_metrics_show_on_the_metrics_page(tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(
        "from prometheus_client import Counter\nfrom pointsman import MetricsRegistry\n"
        "class Counting:\n"
        "    def __init__(self, registry: MetricsRegistry) -> None:\n"
        "        self._scored = Counter('scored', 'Calls.', registry=registry)\n"
        "    def score(self, request, candidates):\n"
        "        self._scored.inc()\n        return [0.0 for _ in candidates]\n"
    )
    text = f"plugins: [{{name: a, type: '{path}:Counting'}}, {{name: b, type: '{path}:Counting'}}]"
    container = container_of(text)
    container.scheduler().schedule(make_request(), make_candidates("x"))
    container.registries().publish(())
    samples = [sample for family in container.plugin_metrics().collect() for sample in family.samples]
    counted = {sample.labels["plugin"]: sample.value for sample in samples if sample.name == "scored_total"}
    assert counted == {"a": 1.0, "b": 1.0}


def test_a_constructor_runs_once_from_the_sources_to_a_process_that_can_start(tmp_path: Path) -> None:
    path = tmp_path / "heavy.py"
    path.write_text(
        "class Heavy:\n    made = 0\n"
        "    def __init__(self) -> None:\n        type(self).made += 1\n"
        "    def score(self, request, candidates):\n        return [0.0 for _ in candidates]\n"
    )
    application = Application(load(Sources(text=f"plugins: [{{name: heavy, type: '{path}:Heavy'}}]")))
    application.verify()
    application.runner()
    heavy = application.generation.plugins["heavy"]()
    assert type(heavy).made == 1


def scores_of(container: GenerationContainer) -> Sequence[float]:
    """The totals of a decision over three endpoints."""
    result = container.scheduler().schedule(make_request(), make_candidates("x", "y", "z"))
    totals: list[float] = result.results[result.primary].scored.totals.tolist()
    return totals
