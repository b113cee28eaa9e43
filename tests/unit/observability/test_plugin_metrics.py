"""The metrics of plugins on one page."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest

from app.observability.plugin_metrics import PluginMetrics


def page_of(metrics: PluginMetrics) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_two_instances_have_one_metric_each_with_its_name() -> None:
    metrics = PluginMetrics()
    for number, name in enumerate(("a", "b"), 1):
        Counter("picks", "Picks made.", ["zone"], registry=metrics.registry_of(name)).labels("x").inc(number)
    page = page_of(metrics)
    assert page.count("# TYPE picks_total counter") == 1
    assert 'picks_total{plugin="a",zone="x"} 1.0' in page
    assert 'picks_total{plugin="b",zone="x"} 2.0' in page


def test_a_rebuilt_plugin_starts_with_a_new_registry() -> None:
    metrics = PluginMetrics()
    Counter("picks", "Picks made.", registry=metrics.registry_of("a")).inc(7)
    Counter("picks", "Picks made.", registry=metrics.registry_of("a"))
    assert 'picks_total{plugin="a"} 0.0' in page_of(metrics)


def test_after_a_change_only_kept_and_new_plugins_are_collected() -> None:
    metrics = PluginMetrics()
    for name in ("gone", "kept", "anew"):
        Counter("picks", "Picks made.", registry=metrics.registry_of(name)).inc(7)
    fresh = {name: CollectorRegistry() for name in ("anew", "new")}
    for registry in fresh.values():
        Counter("picks", "Picks made.", registry=registry).inc()
    metrics.change(["kept", "without metrics"], fresh)
    lines = [line for line in page_of(metrics).splitlines() if line.startswith("picks_total")]
    assert lines == [
        f'picks_total{{plugin="{name}"}} {count}' for name, count in (("kept", 7.0), ("anew", 1.0), ("new", 1.0))
    ]


def test_a_change_to_no_plugins_with_metrics_leaves_an_empty_page() -> None:
    metrics = PluginMetrics()
    Counter("picks", "Picks made.", registry=metrics.registry_of("gone"))
    metrics.change([], {})
    assert page_of(metrics) == ""
