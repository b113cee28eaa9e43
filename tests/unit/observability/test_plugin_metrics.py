"""The metrics of plugins on one page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest

from app.observability.plugin_metrics import PluginMetrics, PluginRegistries


@pytest.fixture
def page() -> PluginMetrics:
    return PluginMetrics()


def text_of(page: PluginMetrics) -> str:
    registry = CollectorRegistry()
    registry.register(page)
    return generate_latest(registry).decode()


def lines_of(page: PluginMetrics, name: str = "picks_total") -> list[str]:
    """The samples of one name."""
    return [line for line in text_of(page).splitlines() if line.startswith(f"{name}{{")]


def counters(page: PluginMetrics, *names: str) -> tuple[PluginRegistries, list[Counter]]:
    """The registries of plugins with these names, each with a counter."""
    registries = PluginRegistries(page)
    return registries, [Counter("picks", "Picks made.", registry=registries.registry_of(name)) for name in names]


def published(
    page: PluginMetrics, *names: str, unchanged: Collection[str] = ()
) -> tuple[PluginRegistries, list[Counter]]:
    """The same, once they are on the page."""
    registries, made = counters(page, *names)
    registries.publish(unchanged)
    return registries, made


def test_two_instances_have_one_metric_each_with_its_name(page: PluginMetrics) -> None:
    registries = PluginRegistries(page)
    for number, name in enumerate(("a", "b"), 1):
        Counter("picks", "Picks made.", ["zone"], registry=registries.registry_of(name)).labels("x").inc(number)
    registries.publish([])
    text = text_of(page)
    assert text.count("# TYPE picks_total counter") == 1
    assert 'picks_total{plugin="a",zone="x"} 1.0' in text
    assert 'picks_total{plugin="b",zone="x"} 2.0' in text


def test_a_plugin_has_one_registry(page: PluginMetrics) -> None:
    registries = PluginRegistries(page)
    assert registries.registry_of("a") is registries.registry_of("a")
    assert registries.registry_of("a") is not registries.registry_of("b")


def test_without_plugins_the_page_is_empty(page: PluginMetrics) -> None:
    assert text_of(page) == ""
    published(page)
    assert text_of(page) == ""


def test_registries_replace_the_previous_ones_when_they_are_published(page: PluginMetrics) -> None:
    published(page, "kept", "gone")
    following, _ = counters(page, "kept", "new")
    assert lines_of(page) == ['picks_total{plugin="kept"} 0.0', 'picks_total{plugin="gone"} 0.0']
    following.publish([])
    assert lines_of(page) == ['picks_total{plugin="kept"} 0.0', 'picks_total{plugin="new"} 0.0']


def test_the_counter_of_a_changed_plugin_starts_at_0(page: PluginMetrics) -> None:
    registries, (counter,) = published(page, "a")
    counter.inc(7)
    published(page, "a")
    assert lines_of(page) == ['picks_total{plugin="a"} 0.0']
    registries.end()
    assert lines_of(page) == ['picks_total{plugin="a"} 0.0']


def test_the_counter_of_an_unchanged_plugin_continues(page: PluginMetrics) -> None:
    before, (first,) = published(page, "a")
    first.inc(7)
    _, (second,) = published(page, "a", unchanged=["a"])
    assert lines_of(page) == ['picks_total{plugin="a"} 7.0']
    first.inc()  # by a request that began before the reload
    second.inc(2)
    assert lines_of(page) == ['picks_total{plugin="a"} 10.0']
    before.end()
    assert lines_of(page) == ['picks_total{plugin="a"} 10.0']


@pytest.mark.parametrize("ends_early", [False, True], ids=["previous ones still count", "previous ones have ended"])
def test_a_counter_continues_over_several_reloads(page: PluginMetrics, ends_early: bool) -> None:
    previous: PluginRegistries | None = None
    for _ in range(4):
        registries, (counter,) = published(page, "a", unchanged=["a"])
        counter.inc()
        if ends_early and previous is not None:
            previous.end()
        previous = registries
    assert lines_of(page) == ['picks_total{plugin="a"} 4.0']


@pytest.mark.parametrize("ends_early", [False, True], ids=["previous ones still count", "previous ones have ended"])
def test_a_plugin_that_changed_once_does_not_get_its_old_counts_back(page: PluginMetrics, ends_early: bool) -> None:
    first, (counter,) = published(page, "a")
    counter.inc(7)
    published(page, "a", unchanged=["a"])
    if ends_early:
        first.end()
    published(page, "a")
    _, (counter,) = published(page, "a", unchanged=["a"])
    counter.inc()
    assert lines_of(page) == ['picks_total{plugin="a"} 1.0']


@pytest.mark.parametrize("ends", [False, True], ids=["previous ones still count", "previous ones have ended"])
def test_series_with_labels_continue_before_they_are_counted_anew(page: PluginMetrics, ends: bool) -> None:
    made = []
    for _ in range(2):
        registries = PluginRegistries(page)
        made.append((registries, Counter("picks", "Picks made.", ["zone"], registry=registries.registry_of("a"))))
        registries.publish(["a"])
        if len(made) == 1:
            made[0][1].labels("x").inc(7)
    if ends:
        made[0][0].end()
    assert lines_of(page) == ['picks_total{plugin="a",zone="x"} 7.0']
    made[1][1].labels("y").inc(2)
    made[1][1].labels("x").inc()
    expected = ['picks_total{plugin="a",zone="x"} 8.0', 'picks_total{plugin="a",zone="y"} 2.0']
    assert sorted(lines_of(page)) == expected


def test_series_of_a_plugin_that_is_gone_or_changed_are_not_on_the_page(page: PluginMetrics) -> None:
    before = PluginRegistries(page)
    for name in ("kept", "changed", "gone"):
        Counter("picks", "Picks made.", ["zone"], registry=before.registry_of(name)).labels("x").inc()
    before.publish([])
    following = PluginRegistries(page)
    for name in ("kept", "changed"):
        Counter("picks", "Picks made.", ["zone"], registry=following.registry_of(name))
    following.publish(["kept"])
    assert lines_of(page) == ['picks_total{plugin="kept",zone="x"} 1.0']
    before.end()
    assert lines_of(page) == ['picks_total{plugin="kept",zone="x"} 1.0']


def test_a_metric_that_the_plugin_no_longer_has_is_not_on_the_page(page: PluginMetrics) -> None:
    _, (counter,) = published(page, "a")
    counter.inc()
    PluginRegistries(page).publish(["a"])
    assert text_of(page) == ""


def test_a_summary_continues(page: PluginMetrics) -> None:
    for value in (0.5, 5):
        registries = PluginRegistries(page)
        Summary("age", "Age.", registry=registries.registry_of("a")).observe(value)
        registries.publish(["a"])
    assert [*lines_of(page, "age_count"), *lines_of(page, "age_sum")] == [
        'age_count{plugin="a"} 2.0',
        'age_sum{plugin="a"} 5.5',
    ]


def test_a_gauge_does_not_continue(page: PluginMetrics) -> None:
    for value in (7, 1):
        registries = PluginRegistries(page)
        Gauge("size", "Size.", registry=registries.registry_of("a")).set(value)
        registries.publish(["a"])
    assert lines_of(page, "size") == ['size{plugin="a"} 1.0']


def test_a_histogram_continues(page: PluginMetrics) -> None:
    for value in (0.5, 5):
        registries = PluginRegistries(page)
        Histogram("age", "Age.", buckets=[1], registry=registries.registry_of("a")).observe(value)
        registries.publish(["a"])
    assert lines_of(page, "age_bucket") == [
        'age_bucket{le="1.0",plugin="a"} 1.0',
        'age_bucket{le="+Inf",plugin="a"} 2.0',
    ]
    assert [*lines_of(page, "age_count"), *lines_of(page, "age_sum")] == [
        'age_count{plugin="a"} 2.0',
        'age_sum{plugin="a"} 5.5',
    ]


def test_the_time_of_creation_is_not_added_up(page: PluginMetrics) -> None:
    for _ in range(2):
        published(page, "a", unchanged=["a"])
    (line,) = lines_of(page, "picks_created")
    assert float(line.rpartition(" ")[2]) < 1e10


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.integers(0, 3), st.sampled_from(["a", "b"])),
        st.tuples(st.just("reload"), st.booleans(), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 3), st.none()),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_any_counts_and_reloads_give_the_sum_since_the_last_change(steps: list[Any]) -> None:
    page = PluginMetrics()
    live = [published(page, "a", "b")]
    since = {"a": 0, "b": 0}  # the generation of the plugin's last change
    counts: dict[tuple[int, str], int] = {}
    born = [0]  # the generations of `live`
    for step, first, second in steps:
        if step == "count":  # by a request of any generation that still runs
            row = first % len(live)
            live[row][1]["ab".index(second)].inc()
            counts[born[row], second] = counts.get((born[row], second), 0) + 1
        elif step == "reload":
            generation = max(born) + 1
            unchanged = [name for name, kept in (("a", first), ("b", second)) if kept]
            live.append(published(page, "a", "b", unchanged=unchanged))
            born.append(generation)
            since |= {name: generation for name in "ab" if name not in unchanged}
        elif len(live) > 1:  # the current one does not end
            row = first % (len(live) - 1)
            live.pop(row)[0].end()
            born.pop(row)
        expected = {
            name: sum(count for (generation, of), count in counts.items() if of == name and generation >= since[name])
            for name in "ab"
        }
        assert lines_of(page) == [f'picks_total{{plugin="{name}"}} {expected[name]}.0' for name in "ab"]
