"""Overriding by name: it reaches everything that is built after it, or it raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dependency_injector import providers

from app.domain.decision import Decision
from app.settings.layers import Sources
from containers.application import Application, load
from containers.generation import GenerationContainer
from containers.overriding import OverrideTooLateError
from pointsman.testing import FakeClock, make_endpoint, make_request
from tests.support.engines import fake_engine, says
from tests.support.running import FREE_PORTS, serving, until
from tests.wiring.test_generation import REFERENCES, TWO_PROFILES, container_of, pick


class Favourite:
    """A scorer that likes one endpoint."""

    def __init__(self, name: str) -> None:
        self.name = name

    def score(self, request, candidates) -> Sequence[float]:  # type: ignore[no-untyped-def]
        return [float(endpoint.name == self.name) for endpoint in candidates]


class Always:
    """A profile picker that runs one profile, and observes."""

    def __init__(self, profile: str = "b") -> None:
        self.profile = profile
        self.finished: list[str] = []

    def pick_profiles(self, request, profiles, finished):  # type: ignore[no-untyped-def]
        return () if finished else (self.profile,)

    def conclude(self, request, finished):  # type: ignore[no-untyped-def]
        return Decision(self.profile, finished)

    def on_finished(self, request, decision, outcome) -> None:  # type: ignore[no-untyped-def]
        self.finished.append(decision.endpoint.name)


# -- plugins


@pytest.mark.parametrize("profile", ["a", "b"])
@pytest.mark.parametrize("fake", [Favourite("y"), providers.Object(Favourite("y"))], ids=["an object", "a provider"])
def test_a_fake_put_in_by_name_is_seen_by_every_profile(fake: object, profile: str) -> None:
    container = container_of(TWO_PROFILES)
    with container.plugins["shared"].override(fake):
        assert pick(container, profile) == "y"


def test_an_override_may_also_stay_for_good() -> None:
    container = container_of(TWO_PROFILES)
    container.plugins["shared"].override(Favourite("z"))
    assert (pick(container, "a"), pick(container, "b")) == ("z", "z")


def test_blocks_that_follow_each_other_each_see_their_own_fake() -> None:
    container = container_of(TWO_PROFILES)
    picks = []
    for name in ("x", "y", "z"):
        with container.plugins["shared"].override(Favourite(name)):
            picks += [pick(container, "a"), pick(container, "b")]
    assert picks == ["x", "x", "y", "y", "z", "z"]
    assert type(container.plugins["shared"]()).__name__ == "QueueScorer"


def test_two_containers_share_nothing() -> None:
    first, second = container_of(TWO_PROFILES), container_of(TWO_PROFILES)
    with first.plugins["shared"].override(Favourite("y")):
        found = [type(container.plugins["shared"]()).__name__ for container in (first, second)]
    assert found == ["Favourite", "QueueScorer"]


def test_a_fake_is_seen_by_a_plugin_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "references.py"
    path.write_text(REFERENCES)
    container = container_of(f"""
plugins: [{{name: sum, type: '{path}:Sum', parameters: {{first: q}}}}, {{name: q, type: queue-scorer}}]
""")
    fake = Favourite("x")
    with container.plugins["q"].override(fake):
        assert container.plugins["sum"]().params.first is fake


def test_a_plugin_that_is_overridden_first_is_never_constructed(tmp_path: Path) -> None:
    path = tmp_path / "heavy.py"
    path.write_text(
        "class Heavy:\n    def __init__(self) -> None:\n        raise RuntimeError('constructed')\n"
        "    def score(self, request, candidates): return [0.0 for _ in candidates]\n"
    )
    application = Application(load(Sources(text=f"plugins: [{{name: heavy, type: '{path}:Heavy'}}]")))
    application.generation.plugins["heavy"].override(Favourite("y"))
    application.verify()
    application.runner()
    assert pick(application.generation) == "y"


def test_a_fake_with_fewer_or_more_methods_is_asked_for_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "busy.py"
    path.write_text(
        "class Busy:\n    def score(self, request, candidates): return [0.0 for _ in candidates]\n"
        "    def on_finished(self, request, decision, outcome): pass\n"
        "    async def start(self): pass\n    async def stop(self): pass\n"
    )
    text = f"plugins: [{{name: busy, type: '{path}:Busy'}}]"
    real, fake = container_of(text), container_of(text)
    fake.plugins["busy"].override(Favourite("x"))
    assert [[one.name for one in each.observers().on_finished] for each in (real, fake)] == [
        ["busy", "request-metrics"],
        ["request-metrics"],
    ]


# -- the profile picker


@pytest.mark.parametrize("fake", [Always, lambda: providers.Factory(Always)], ids=["an object", "a factory"])
def test_the_profile_picker_can_be_replaced(fake: Callable[[], object]) -> None:
    container = container_of(TWO_PROFILES)
    with container.profile_picker.override(fake()):
        container.pool().replace_all([make_endpoint("x")])
        decision = container.scheduler().schedule(make_request(), container.pool().candidates())
    assert decision.primary == "b"


async def test_a_profile_picker_put_in_its_place_observes_as_well() -> None:
    container, fake = container_of(TWO_PROFILES), Always()
    with container.profile_picker.override(fake):
        container.pool().replace_all([make_endpoint("x")])
        async with container.router().route(make_request()):
            pass
    assert fake.finished == ["x"]


def test_a_profile_picker_that_is_replaced_is_not_constructed(tmp_path: Path) -> None:
    path = tmp_path / "heavy.py"
    path.write_text(
        "from plugins.profile_pickers.single import SingleProfileHandler\n"
        "class Heavy(SingleProfileHandler):\n    def __init__(self) -> None:\n        raise RuntimeError('constructed')\n"
    )
    container = container_of(f"plugins: [{{name: heavy, type: '{path}:Heavy'}}]")
    with container.profile_picker.override(Always("default")):
        assert pick(container) in ("x", "y", "z")
        container.observers()


def test_a_profile_picker_that_observes_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "both.py"
    path.write_text(
        "from plugins.profile_pickers.single import SingleProfileHandler\n"
        "class Both(SingleProfileHandler):\n"
        "    def on_finished(self, request, decision, outcome): pass\n"
    )
    container = container_of(f"plugins: [{{name: both, type: '{path}:Both'}}]")
    observer = next(one.plugin for one in container.observers().on_finished if one.name == "both")
    assert container.profile_picker().plugin is observer


# -- services


def test_an_overridden_clock_is_seen_by_everything() -> None:
    container, clock = container_of("plugins: [{type: approx-prefix-cache-producer}]"), FakeClock()
    with container.clock.override(clock):
        seen = (container.router().clock, container.pool()._clock, container.monitor()._clock)
        plugin = container.plugins["approx-prefix-cache-producer"]()
        assert all(one is clock for one in (*seen, plugin._clock))


def test_overridden_randomness_is_seen_by_plugins() -> None:
    container, random = container_of("plugins: [{type: random-picker}]"), Random(1)
    with container.random.override(random):
        assert container.plugins["random-picker"]()._random is random


# -- too late


USES: dict[str, Callable[[GenerationContainer], Any]] = {
    "the plugin": lambda container: container.plugins["shared"](),
    "a profile": lambda container: container.profiles(),
    "the router": lambda container: container.router(),
    "everything": lambda container: container.generation(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_overriding_a_plugin_after_its_first_use_raises(use: Callable[[GenerationContainer], Any]) -> None:
    container = container_of(TWO_PROFILES)
    use(container)
    with pytest.raises(
        OverrideTooLateError, match=r"plugins\['shared'\] has been used.*override it before the first use"
    ):
        container.plugins["shared"].override(Favourite("x"))


@pytest.mark.parametrize("name", ["clock", "profile_picker", "pool", "router", "scheduler", "observers", "random"])
def test_overriding_anything_else_after_its_first_use_raises(name: str) -> None:
    container = container_of("plugins: [{type: random-picker}]")
    container.generation()
    with pytest.raises(OverrideTooLateError):
        container.providers[name].override(FakeClock())


def test_an_override_of_what_was_not_used_yet_is_never_too_late() -> None:
    container = container_of(TWO_PROFILES)
    container.clock()
    with container.plugins["shared"].override(Favourite("y")):
        assert pick(container) == "y"


# -- the library's own teardown


async def test_taking_back_all_overrides_does_no_harm_to_a_running_process() -> None:
    async with fake_engine(says("here")) as engine:
        text = f"{FREE_PORTS}\npool: {{endpoints: [{{name: e, address: 127.0.0.1, port: {engine.port}}}]}}\n"
        async with serving(Application(load(Sources(("builtin:default",), text)))) as app:
            before = app.generation.effective()(), app.generation.router(), app.process.generations().current
            app.generation.reset_override()
            app.process.reset_override()
            after = app.generation.effective()(), app.generation.router(), app.process.generations().current
            assert after == before
            async with app.chat() as response:
                assert (response.status, await response.text()) == (200, "here")
            assert [one.name for one in app.generation.observers().on_finished] == [
                "token-load-producer",
                "request-metrics",
            ]
            async with app.client.get(f"{app.admin_url}/debug/config") as page:
                assert "expected-ttft-scorer" in await page.text()
            await until(lambda: app.process.in_flight().total == 0)


def test_taking_back_an_override_brings_back_the_real_thing() -> None:
    container = container_of(TWO_PROFILES)
    container.plugins["shared"].override(Favourite("y"))
    first = pick(container)
    container.plugins["shared"].reset_override()
    assert (first, type(container.plugins["shared"]()).__name__) == ("y", "QueueScorer")
    assert all(profile._scorers[0].plugin is container.plugins["shared"]() for profile in container.profiles().values())


@pytest.mark.parametrize("whole", [True, False], ids=["of the container", "of the plugins"])
def test_taking_back_all_overrides_takes_back_those_of_plugins(whole: bool) -> None:
    container = container_of(TWO_PROFILES)
    container.plugins["shared"].override(Favourite("y"))
    first = pick(container)
    (container if whole else container.plugins).reset_override()
    assert (first, type(container.plugins["shared"]()).__name__) == ("y", "QueueScorer")


def test_a_plugin_that_does_not_exist_can_not_be_overridden() -> None:
    with pytest.raises(KeyError, match="no plugin is named 'shred'; there are shared"):
        container_of(TWO_PROFILES).plugins["shred"].override(Favourite("y"))
