"""Which layers there are, and which of them wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings.errors import UsageError
from tests.unit.settings.given import configuration, problems

DEPTHS = {
    "one": ("kind", "kind: {}", "POINTSMAN_", "kind={}"),
    "two": ("routing.producerDeadline", "routing: {{producerDeadline: {}}}", "POINTSMAN_ROUTING__PRODUCER_DEADLINE", "routing.producerDeadline={}"),
    "three": ("pool.scrape.interval", "pool: {{scrape: {{interval: {}}}}}", "POINTSMAN_POOL__SCRAPE__INTERVAL", "pool.scrape.interval={}"),
}  # fmt: skip


def value_at(depth: str, tmp_path: Path, sources: list[str]) -> float:
    """The value at some depth when `sources` say it, each in its own number of seconds."""
    _, yaml, variable, path = DEPTHS[depth]
    files = []
    for number in (1, 2):
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.format(f"{number}s") if f"file {number}" in sources else "")
        files.append(str(file))
    text = yaml.format("3s") if "text" in sources else None
    environment = {variable: "4s"} if "environment" in sources else {}
    sets = (path.format("5s"),) if "set" in sources else ()
    settings = configuration(text, environment, sets, *files).settings
    return settings.routing.producer_deadline if depth == "two" else settings.pool.scrape.interval


ORDER = ["file 1", "file 2", "text", "environment", "set"]


@pytest.mark.parametrize("depth", ["two", "three"])
@pytest.mark.parametrize("strongest", range(5), ids=ORDER)
def test_the_later_source_wins(depth: str, strongest: int, tmp_path: Path) -> None:
    assert value_at(depth, tmp_path, ORDER[: strongest + 1]) == strongest + 1


@pytest.mark.parametrize("strongest", [0, 1, 2, 4], ids=lambda n: ORDER[n])
def test_the_later_source_wins_within_a_list_item(strongest: int, tmp_path: Path) -> None:
    files = []
    for number in (1, 2):
        file = tmp_path / f"{number}.yaml"
        file.write_text(
            f"plugins: [{{type: sized, parameters: {{capacity: {number}}}}}]" if number <= strongest + 1 else ""
        )
        files.append(str(file))
    text = "plugins: [{type: sized, parameters: {capacity: 3}}]" if strongest >= 2 else None
    sets = ("plugins[sized].parameters.capacity=5",) if strongest >= 4 else ()
    (plugin,) = configuration(text, {}, sets, *files).settings.plugins
    assert plugin.parameters == {"capacity": strongest + 1}


@pytest.mark.parametrize(
    "name",
    ["POINTSMAN_POOL__SCRAPE__STALE_AFTER", "POINTSMAN_pool__scrape__staleAfter", "POINTSMAN_POOL__SCRAPE__STALEAFTER"],
)
def test_a_variable_is_found_in_any_spelling(name: str) -> None:
    assert configuration("", {name: "9s"}).settings.pool.scrape.stale_after == 9


@pytest.mark.parametrize("name", ["POINTSMAN_PORT", "POINTSMAN_SERVICE_HOST", "OTHER_POOL__SCRAPE__INTERVAL", "PATH"])
def test_other_variables_are_ignored(name: str) -> None:
    assert not problems("", {name: "tcp://10.0.0.1:80"})


def test_a_variable_that_names_nothing_is_a_fault() -> None:
    (fault,) = problems("", {"POINTSMAN_POOL__SCARPE__INTERVAL": "1s"})
    assert fault.startswith("environment POINTSMAN_POOL__SCARPE__INTERVAL: ")
    assert "did you mean 'scrape'?" in fault


def test_a_variable_below_a_list_is_a_fault_with_a_hint() -> None:
    (fault,) = problems("", {"POINTSMAN_PLUGINS__SIZED__ENABLED": "false"})
    assert fault.endswith("the environment reaches mappings only, and this is below a list; use --set")


def test_a_variable_holds_one_value_whatever_is_in_it() -> None:
    loaded = configuration("", {"POINTSMAN_SIMULATION__MODEL": "1\nadmin: true"})
    assert loaded.settings.simulation.model == "1\nadmin: true"


@pytest.mark.parametrize("text", ["pool", "=1", "a..b=1", "[a]=1", "a[b][c]=1", "a[=1", ""])
def test_a_set_that_is_none_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError, match="expected path=value"):
        configuration("", {}, (text,))


def test_a_set_takes_any_yaml() -> None:
    settings = configuration("", {}, ("transports.admin.allowFrom=['::1', 10.0.0.0/8]",)).settings
    assert settings.transports.admin.allow_from == ("::1", "10.0.0.0/8")


def test_a_set_of_something_that_is_no_yaml_is_a_fault() -> None:
    (fault,) = problems("", {}, ("pool.endpoints=[",))
    assert fault.startswith("--set pool.endpoints: this is not YAML")


def test_a_set_reaches_items_by_name() -> None:
    sets = ("pool.endpoints[a].address=h", "pool.endpoints[a].port=80", "flowControl.priorityBands[3].maxBytes=1Gi")
    settings = configuration("", {}, sets).settings
    assert (settings.pool.endpoints[0].name, settings.pool.endpoints[0].port) == ("a", 80)
    assert settings.flow_control is not None
    assert (settings.flow_control.priority_bands[0].priority, settings.flow_control.priority_bands[0].max_bytes) == (
        3,
        2**30,
    )


def test_a_set_of_a_key_that_is_not_there_is_a_fault() -> None:
    (fault,) = problems("", {}, ("plugins[x].tpye=sized", "plugins[x].type=sized"))
    assert fault.startswith("--set plugins[x].tpye: unknown key 'tpye'; did you mean 'type'?")


@pytest.mark.parametrize("name", ["nowhere.yaml", "/", "builtin:nowhere"])
def test_a_file_that_can_not_be_read_is_wrong_usage_and_named(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        configuration(None, {}, (), name)


def test_without_any_source_the_defaults_are_loaded() -> None:
    assert next(plugin.type for plugin in configuration(None).settings.plugins) == "queue-scorer"


def test_with_text_only_the_text_is_loaded() -> None:
    assert configuration("kind: EndpointPickerConfig").settings.plugins == ()
