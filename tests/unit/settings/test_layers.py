"""The sources of a configuration and their precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings.configuration import load
from app.settings.errors import Faults, UsageError
from app.settings.layers import Sources, load_layers, shipped
from app.settings.tree import plain

from .given import configuration, params_model, problems

DEPTHS = [
    pytest.param("kind: x{}", "", "kind=x{}", "kind", id="at the top"),
    pytest.param("shutdown: {{delay: {}s}}", "SHUTDOWN__DELAY", "shutdown.delay={}s", "shutdown.delay", id="one below"),
    pytest.param(
        "pool: {{scrape: {{interval: {}s}}}}", "POOL__SCRAPE__INTERVAL", "pool.scrape.interval={}s",
        "pool.scrape.interval", id="two below",
    ),
    pytest.param(
        "pool: {{endpoints: [{{name: a, address: b, port: {}}}]}}", "", "pool.endpoints[a].port={}",
        "pool.endpoints.0.port", id="in a list's item",
    ),
]  # fmt: skip


def origin(text: str | None, path: str, sets: tuple[str, ...] = (), **more: object) -> str:
    """The source of the value at `path`."""
    environment = more.get("environment", {})
    files = more.get("files", ())
    assert isinstance(environment, dict)
    assert isinstance(files, tuple)
    found = load(Sources(files, text, environment, sets), params_model)
    return found.origin(*(int(step) if step.isdigit() else step for step in path.split("."))).source


def plain_of(text: str) -> object:
    """The data of a single `--set`."""
    return plain(load_layers(Sources(text="", sets=(text,)), params_model, Faults()))


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Two files with the same text but different values."""
    text = request.getfixturevalue("text")
    paths = tmp_path / "1.yaml", tmp_path / "2.yaml"
    for number, path in enumerate(paths, 1):
        path.write_text(text.format(number), encoding="utf-8")
    return str(paths[0]), str(paths[1])


@pytest.mark.parametrize(("text", "name", "path", "at"), DEPTHS)
def test_a_later_file_takes_precedence(files: tuple[str, str], text: str, name: str, path: str, at: str) -> None:
    assert origin(None, at, files=files) == files[1]
    assert origin(None, at, files=files[::-1]) == files[0]


@pytest.mark.parametrize(("text", "name", "path", "at"), DEPTHS)
def test_the_text_takes_precedence_over_files(files: tuple[str, str], text: str, name: str, path: str, at: str) -> None:
    assert origin(text.format(3), at, files=files) == "--config-text"


@pytest.mark.parametrize(("text", "name", "path", "at"), DEPTHS[1:3])
def test_the_environment_takes_precedence_over_the_text(text: str, name: str, path: str, at: str) -> None:
    found = origin(text.format(3), at, environment={f"POINTSMAN_{name}": "4s"})
    assert found == f"environment POINTSMAN_{name}"


@pytest.mark.parametrize(("text", "name", "path", "at"), DEPTHS)
def test_set_takes_precedence_over_the_text(text: str, name: str, path: str, at: str) -> None:
    assert origin(text.format(3), at, (path.format(5),)) == f"--set {path.partition('=')[0]}"


@pytest.mark.parametrize(("text", "name", "path", "at"), DEPTHS[1:3])
def test_set_takes_precedence_over_the_environment(text: str, name: str, path: str, at: str) -> None:
    found = origin("", at, (path.format(5),), environment={f"POINTSMAN_{name}": "4s"})
    assert found.startswith("--set ")


def test_a_later_set_takes_precedence() -> None:
    assert configuration(sets=("shutdown.delay=1s", "shutdown.delay=2s")).settings.shutdown.delay == 2.0


# -- which files


def test_without_files_and_text_the_built_in_default_is_loaded() -> None:
    found = load(Sources(), lambda _: None)
    assert found.origin("plugins").source == "builtin:default"


def test_a_text_without_files_is_the_only_layer() -> None:
    found = configuration("shutdown: {delay: 1s}")
    assert not found.settings.plugins
    assert found.origin("plugins").source == "--config-text"


def test_an_empty_text_replaces_the_default() -> None:
    assert not configuration("").settings.plugins


def test_a_file_replaces_the_default(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("shutdown: {delay: 1s}", encoding="utf-8")
    assert not configuration(None, None, (), str(path)).settings.plugins


def test_a_text_is_merged_over_a_built_in_file() -> None:
    found = load(Sources(["builtin:default"], "shutdown: {delay: 9s}"), lambda _: None).settings
    assert (len(found.plugins) > 1, found.shutdown.delay) == (True, 9.0)


def test_the_environment_and_set_are_merged_over_the_default() -> None:
    sources = Sources(environment={"POINTSMAN_SHUTDOWN__DELAY": "1s"}, sets=["shutdown.timeout=2s"])
    found = load(sources, lambda _: None).settings
    assert (found.shutdown.delay, found.shutdown.timeout, bool(found.plugins)) == (1.0, 2.0, True)


def test_built_in_configurations_are_found() -> None:
    assert shipped("default").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("/no/such.yaml", "/no/such.yaml: No such file or directory", id="a file"),
        pytest.param("/", "/: Is a directory", id="a directory"),
        pytest.param(
            "builtin:prd",
            "builtin:prd: no such built-in configuration; known: default, dev, prod",
            id="not built in",
        ),
    ],
)
def test_a_file_that_does_not_exist_is_a_usage_error(name: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        load(Sources([name]), params_model)
    assert str(error.value).startswith(message)


def test_a_file_that_is_not_yaml_is_an_error_and_the_other_layers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: [")
    found = configuration("shutdown: {delay: 9s}", None, (), str(path))
    assert found.settings.shutdown.delay == 9.0
    assert str(found.faults.errors[0].origin).startswith(str(path))


# -- the environment


@pytest.mark.parametrize(
    "name",
    ["POOL__SCRAPE__STALE_AFTER", "POOL__SCRAPE__STALEAFTER", "pool__scrape__staleAfter", "Pool__Scrape__stale_after"],
)
def test_a_variable_may_have_any_spelling(name: str) -> None:
    assert configuration("", {f"POINTSMAN_{name}": "9s"}).settings.pool.scrape.stale_after == 9.0


@pytest.mark.parametrize("case", [str.upper, str.lower], ids=["upper case", "lower case"])
def test_a_variable_sets_the_scrape_interval(case: type[str]) -> None:
    name = f"POINTSMAN_{case('pool__scrape__interval')}"
    assert configuration("", {name: "3s"}).settings.pool.scrape.interval == 3.0


@pytest.mark.parametrize(
    "name", ["POINTSMAN_PORT", "POINTSMAN_PORT_8080_TCP", "POINTSMAN_SERVICE_HOST", "POOL__SCRAPE__INTERVAL", "PATH"]
)
def test_other_variables_are_ignored(name: str) -> None:
    assert not problems("", {name: "tcp://10.0.0.1:8080"})


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        pytest.param("SIMULATION__SERVERS", "3", 3, id="a number"),
        pytest.param("SIMULATION__MODEL", "on", "on", id="text"),
        pytest.param("TRANSPORTS__HTTP__ENABLED", "false", False, id="a boolean"),
        pytest.param("DATA_LAYER__DISCOVERY__PLUGIN_REF", "x: y # z", "x: y # z", id="text that is not YAML"),
    ],
)
def test_the_value_of_a_variable_is_one_scalar(name: str, value: str, found: object) -> None:
    settings = configuration("", {f"POINTSMAN_{name}": value}).settings
    discovery = settings.data_layer.discovery
    assert found in (
        settings.simulation.servers, settings.simulation.model, settings.transports.http.enabled,
        discovery and discovery.plugin_ref,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("POOL__SCRAPE__INTRVAL", "unknown key 'INTRVAL'; did you mean 'interval'?", id="below"),
        pytest.param("POOL__X__Y", "unknown key 'X'", id="a section"),
        pytest.param("FOO__BAR", "unknown key 'FOO'", id="at the top"),
        pytest.param("POOL__", "unknown key ''", id="an empty key"),
    ],
)
def test_an_unknown_key_in_a_variable_is_an_error(name: str, message: str) -> None:
    (fault,) = problems("", {f"POINTSMAN_{name}": "1s"})
    assert fault.startswith(f"environment POINTSMAN_{name}: ")
    assert message in fault


@pytest.mark.parametrize(
    "name",
    ["PLUGINS__A__TYPE", "PLUGINS__0", "POOL__ENDPOINTS__A__PORT", "SCHEDULING_PROFILES__P__PLUGINS__A__WEIGHT"],
)
def test_a_variable_can_not_set_values_inside_a_list(name: str) -> None:
    (fault,) = problems("", {f"POINTSMAN_{name}": "1"})
    assert fault.startswith(f"environment POINTSMAN_{name}: ")
    assert fault.endswith("environment variables can't set values inside a list; use --set")


def test_an_invalid_value_in_a_variable_is_reported_with_its_name() -> None:
    (fault,) = problems("", {"POINTSMAN_POOL__SCRAPE__INTERVAL": "soon"})
    assert fault.startswith("environment POINTSMAN_POOL__SCRAPE__INTERVAL: ")
    assert "expected a duration" in fault


def test_secrets_in_variables_are_not_shown() -> None:
    faults = problems("", {"POINTSMAN_POOL__API_KEY": "hunter2", "POINTSMAN_SECRET__TOKEN": "hunter2"})
    assert len(faults) == 2
    assert "hunter2" not in "".join(faults)


# -- --set


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        pytest.param("kind=x", "kind", "x", id="at the top"),
        pytest.param("pool.scrape.stale-after=2s", "pool.scrape.staleAfter", "2s", id="any spelling"),
        pytest.param("plugins[a].type=t", "plugins.0.type", "t", id="a plugin by name"),
        pytest.param("plugins[a].type=t", "plugins.0.name", "a", id="the item's name"),
        pytest.param("schedulingProfiles[p].plugins[a].weight=2", "schedulingProfiles.0.plugins.0.weight", 2, id="two lists"),
        pytest.param("flowControl.priorityBands[5].maxBytes=1", "flowControl.priorityBands.0.priority", 5, id="a band"),
        pytest.param("simulation.adapters=[a, b]", "simulation.adapters.1", "b", id="a list"),
        pytest.param("pool.endpoints[a].labels={llm-d.ai/role: x}", "pool.endpoints.0.labels.llm-d.ai/role", "x", id="a mapping"),
        pytest.param("plugins[a.b/c:d].type=t", "plugins.0.name", "a.b/c:d", id="an odd name"),
        pytest.param("plugins[a].parameters.x=k=v", "plugins.0.parameters.x", "k=v", id="an equals sign in the value"),
        pytest.param("plugins[a].parameters.x='5'", "plugins.0.parameters.x", "5", id="quoted"),
        pytest.param("plugins[a].parameters.x=", "plugins.0.parameters.x", None, id="nothing"),
        pytest.param("plugins[a]={type: t}", "plugins.0.type", "t", id="a whole item"),
        pytest.param("plugins[a]={type: t}", "plugins.0.name", "a", id="the name of a whole item"),
    ],
)  # fmt: skip
def test_set_sets_the_value_at_its_path(text: str, path: str, value: object) -> None:
    node: object = plain_of(text)
    for step in path.replace("llm-d.ai", "llm-d\0ai").split("."):
        key = step.replace("\0", ".")
        node = node[int(key)] if isinstance(node, list) else node[key]  # type: ignore[index]
    assert node == value


def test_set_changes_only_the_named_item() -> None:
    text = "pool: {endpoints: [{name: a, address: x, port: 1}, {name: b, address: x, port: 2}]}"
    endpoints = configuration(text, None, ("pool.endpoints[b].port=3",)).settings.pool.endpoints
    assert [(e.name, e.port) for e in endpoints] == [("a", 1), ("b", 3)]


def test_set_finds_a_plugin_without_a_name_by_its_type() -> None:
    found = configuration("plugins: [{type: sized}]", None, ("plugins[sized].parameters.hash-block-size=9",))
    (plugin,) = found.settings.plugins
    assert (plugin.type, plugin.parameters) == ("sized", {"hashBlockSize": 9})


@pytest.mark.parametrize(
    "text",
    ["", "pool", "=1", ".=1", "[a]=1", "plugins[a][b]=1", "plugins[=1", "plugins[]=1", "pool..scrape=1", "a]=1"],
)
def test_a_malformed_set_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected path=value, such as pool.scrape.interval=2s"):
        configuration(sets=(text,))


def test_a_usage_error_does_not_repeat_the_value() -> None:
    with pytest.raises(UsageError) as error:
        configuration(sets=("plugins[a]].parameters.apiKey=hunter2",))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("pool.scrap.interval=1s", "unknown key 'scrap'; did you mean 'scrape'?", id="an unknown key"),
        pytest.param("pool.scrape.interval=a: b", "this is not YAML", id="not YAML"),
        pytest.param("pool.scrape.interval=[1", "this is not YAML", id="half a list"),
        pytest.param("pool.scrape.interval=2s\nkind: x", "", id="more than a value"),
        pytest.param("shutdown.delay=soon", "expected a duration", id="an invalid value"),
        pytest.param("plugins=5", "expected a list, found 5", id="a number for a list"),
    ],
)
def test_an_invalid_value_in_set_is_reported_with_its_path(text: str, message: str) -> None:
    faults = problems("plugins: [{name: a, type: sized}]", None, (text,))
    assert faults
    assert faults[0].startswith(f"--set {text.partition('=')[0]}: ")
    assert message in faults[0]


def test_an_unknown_key_in_set_is_reported_with_its_path() -> None:
    (fault,) = problems("plugins: [{name: a, type: sized}]", None, ("plugins[a].parameters={hashBlockSise: 1}",))
    assert fault.startswith("--set plugins[a].parameters")
    assert "value." not in fault
