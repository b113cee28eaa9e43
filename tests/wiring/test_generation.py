"""What the container promises: sharing, overriding, references, and that every provider can be built."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from dependency_injector import providers

from app.domain.decision import Decision
from app.domain.errors import PluginError
from app.routing.router import Router
from app.settings.errors import ConfigurationError
from app.settings.layers import Sources, shipped
from containers import parts
from containers.application import Application, check
from containers.generation import lifecycles_of, pipeline_of
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


class Favourite:
    """A scorer that likes one endpoint."""

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, request, candidates) -> Sequence[float]:  # type: ignore[no-untyped-def]
        return [float(endpoint.name == self.name) for endpoint in candidates]


def container_of(text: str, **instead: object) -> Application:
    return check(Sources(text=text)).container(**instead)


def pick(container: Application, profile: str = "a") -> str:
    request = make_request(headers={"EPP-Profile": profile})
    scheduler = generation.scheduler()
    return scheduler.schedule(request, make_candidates("x", "y", "z")).endpoint.name


def test_two_profiles_that_name_one_plugin_share_one_object() -> None:
    profiles = container_of(TWO_PROFILES).generation().profiles()
    assert profiles["a"]._scorers[0].plugin is profiles["b"]._scorers[0].plugin


def test_profiles_are_made_anew_and_their_plugins_are_not() -> None:
    generation = container_of(TWO_PROFILES).generation()
    first, second = generation.profiles()["a"], generation.profiles()["a"]
    assert first is not second
    assert first._scorers[0].plugin is second._scorers[0].plugin


@pytest.mark.parametrize("profile", ["a", "b"])
def test_a_fake_put_in_by_name_is_seen_by_every_profile(profile: str) -> None:
    container = container_of(TWO_PROFILES)
    generation.plugins.providers["shared"].override(providers.Object(Favourite("y")))
    assert pick(container, profile) == "y"


def test_two_containers_share_nothing() -> None:
    first, second = container_of(TWO_PROFILES), container_of(TWO_PROFILES)
    first.generation().plugins.providers["shared"].override(providers.Object(Favourite("y")))
    one, other = (c.generation().plugins.providers["shared"]() for c in (first, second))
    assert (type(one).__name__, type(other).__name__) == ("Favourite", "QueueScorer")


def test_the_profile_picker_can_be_replaced() -> None:
    class Always:
        def pick_profiles(self, request, profiles, finished):  # type: ignore[no-untyped-def]
            return () if finished else ("b",)

        def conclude(self, request, finished):  # type: ignore[no-untyped-def]
            return Decision("b", finished)

    container = container_of(TWO_PROFILES)
    generation.profile_picker.override(providers.Factory(Always))
    decision = generation.scheduler().schedule(make_request(), make_candidates("x"))
    assert decision.primary == "b"


def test_a_profile_picker_that_observes_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "both.py"
    path.write_text(
        "from plugins.profile_pickers.single import SingleProfileHandler\n"
        "class Both(SingleProfileHandler):\n"
        "    def on_finished(self, request, decision, outcome): pass\n"
    )
    generation = container_of(f"plugins: [{{name: both, type: '{path}:Both'}}]").generation()
    observer = next(named.plugin for named in pipeline_of(generation).on_finished if named.name == "both")
    assert generation.profile_picker().plugin is observer


def test_the_clock_can_be_replaced_before_the_first_call() -> None:
    clock = FakeClock()
    container = container_of(TWO_PROFILES)
    container.clock.override(providers.Object(clock))
    assert generation.router().clock is clock
    assert generation.pool()._clock is clock


def test_a_parameter_that_names_a_plugin_becomes_that_plugin(tmp_path: Path) -> None:
    path = tmp_path / "references.py"
    path.write_text(REFERENCES)
    generation = container_of(f"""
plugins:
  - {{name: sum, type: '{path}:Sum', parameters: {{first: q, nested: {{others: [q, kv]}}, maybe: kv}}}}
  - {{name: q, type: queue-scorer}}
  - {{name: kv, type: kv-cache-utilization-scorer}}
""").generation()
    params, q, kv = generation.plugins.sum().params, generation.plugins.q(), generation.plugins.kv()
    assert (params.first, params.nested.others, params.maybe) == (q, (q, kv), kv)


def test_a_fake_is_seen_by_a_plugin_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "references.py"
    path.write_text(REFERENCES)
    generation = container_of(f"""
plugins: [{{name: sum, type: '{path}:Sum', parameters: {{first: q}}}}, {{name: q, type: queue-scorer}}]
""").generation()
    fake = Favourite("x")
    generation.plugins.providers["q"].override(providers.Object(fake))
    assert generation.plugins.sum().params.first is fake


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        pytest.param("{first: nobody}", "no plugin is named 'nobody'", id="missing"),
        pytest.param("{first: max-score-picker}", "must be a Scorer", id="another kind"),
        pytest.param("{first: off}", "is disabled", id="disabled"),
        pytest.param("{first: sum}", "in a circle: sum -> sum", id="itself"),
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
def test_every_provider_of_the_shipped_configurations_is_built_once(layers: tuple[str, ...], tmp_path: Path) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("endpoints: []")
    sets = [f"plugins[endpoints].parameters.path={endpoints}"] if "prod" in layers else []
    container = check(Sources(tuple(f"builtin:{name}" for name in layers), sets=sets)).container()
    built = [provider() for provider in container.providers.values()]
    generation = generation
    built += [provider() for provider in generation.providers.values()]
    built += [provider() for provider in generation.plugins.providers.values()]
    assert not [value for value in built if hasattr(value, "__await__")]


def test_every_shipped_file_is_among_those_built() -> None:
    assert {path.stem for path in shipped("default").parent.glob("*.yaml")} == {"default", "dev", "prod"}


def test_the_pytest_plugin_gives_a_container_with_a_clock_of_the_tests(
    pointsman_container: Application,
) -> None:
    assert isinstance(pointsman_container.clock(), FakeClock)
    assert isinstance(pointsman_container.router(), Router)


async def test_a_router_from_the_container_decides(pointsman_container: Application) -> None:
    pointsman_container.pool().replace_all([make_endpoint("a")])
    async with pointsman_container.router().route(make_request()) as route:
        assert route.endpoint.name == "a"
        assert pointsman_container.in_flight().total == 1
    assert pointsman_container.in_flight().total == 0


class Plain:
    """A scorer and nothing else."""

    def score(self, request, candidates) -> Sequence[float]:
        return [0.0 for _ in candidates]


def test_a_fake_with_fewer_or_more_methods_is_asked_for_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "busy.py"
    path.write_text(
        "class Busy:\n    def score(self, request, candidates): return [0.0 for _ in candidates]\n"
        "    def on_finished(self, request, decision, outcome): pass\n"
        "    async def start(self): pass\n    async def stop(self): pass\n"
    )
    text = f"plugins: [{{name: busy, type: '{path}:Busy'}}]"
    real, fake = container_of(text).generation(), container_of(text).generation()
    fake.plugins.providers["busy"].override(providers.Object(Plain()))
    assert [[named.name for named in lifecycles_of(one)] for one in (real, fake)] == [["busy"], []]
    assert [[named.name for named in pipeline_of(one).on_finished] for one in (real, fake)] == [
        ["busy", "request-metrics"],
        ["request-metrics"],
    ]


def test_what_a_picker_picks_must_be_a_candidate() -> None:
    class Stranger:
        def pick(self, request, scored):
            return (make_endpoint("elsewhere"),)

    generation = container_of(TWO_PROFILES).generation()
    generation.plugins.providers["max-score-picker"].override(providers.Object(Stranger()))
    with pytest.raises(PluginError, match="which is no candidate"):
        generation.scheduler().schedule(make_request(), make_candidates("x"))


async def test_two_instances_of_a_plugin_with_metrics_show_on_the_admin_page(tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(
        "from prometheus_client import Counter\nfrom pointsman import MetricsRegistry\n"
        "class Counting:\n"
        "    def __init__(self, registry: MetricsRegistry) -> None:\n"
        "        self._scored = Counter('scored', 'Calls.', registry=registry)\n"
        "    def score(self, request, candidates):\n"
        "        self._scored.inc()\n        return [0.0 for _ in candidates]\n"
    )
    container = container_of(f"plugins: [{{name: a, type: '{path}:Counting'}}, {{name: b, type: '{path}:Counting'}}]")
    generation.scheduler().schedule(make_request(), make_candidates("x"))
    page = parts.insight(container).metrics().decode()
    assert 'scored_total{plugin="a"} 1.0' in page
    assert 'scored_total{plugin="b"} 1.0' in page
