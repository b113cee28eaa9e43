"""The shipped configurations: complete, without errors, and what they mean written out is what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dependency_injector import providers

from app.checking import Checked
from app.settings.errors import Faults
from app.settings.layers import ROOT, Sources, shipped
from app.settings.reader import read_yaml
from app.settings.shapes import Shape, keys_of, shape_at
from app.settings.tree import Entries, Items, Node
from containers.application import Application, check
from containers.overriding import Plugins

LAYERS = [
    pytest.param(("default",), id="default"),
    pytest.param(("dev",), id="dev alone"),
    pytest.param(("prod",), id="prod alone"),
    pytest.param(("default", "dev"), id="dev over default"),
    pytest.param(("default", "prod"), id="prod over default"),
    pytest.param(("default", "dev", "prod"), id="all of them"),
]

NOT_IN_DEFAULT = {
    "featureGates": "names features of the Go pickers; none of them does anything here",
    "flowControl": "read and without effect in this version",
    "dataLayer.crossReplicaSyncerPluginRef": "does nothing here",
    "dataLayer.crossReplicaSyncInterval": "does nothing here",
    "dataLayer.peerDiscovery": "does nothing here",
    "schedulingProfiles[].plugins[].as": "a plugin that is several things is rare",
    "plugins[].name": "optional: by default the type",
    "plugins[].enabled": "optional: true by default",
    "plugins[].parameters": "optional: each plugin has its own",
    "schedulingProfiles[].enabled": "optional: true by default",
    "schedulingProfiles[].plugins[].enabled": "optional: true by default",
    "dataLayer.discovery": "optional: it comes instead of pool.endpoints, and builtin:prod shows it",
    "pool.endpoints[]": "the default pool is empty; its comment names the keys of an item",
}


def sources(names: tuple[str, ...], tmp_path: Path) -> Sources:
    """The shipped layers; where they read endpoints from a file it is one that exists."""
    path = tmp_path / "endpoints.yaml"
    path.write_text("endpoints:\n  - {name: a, address: 127.0.0.1, port: 8000}\n", encoding="utf-8")
    sets = [f"plugins[endpoints].parameters.path={path}"] if "prod" in names else []
    return Sources([f"builtin:{name}" for name in names], sets=sets)


@pytest.fixture
def configuration(names: tuple[str, ...], tmp_path: Path) -> Checked:
    """The checked layers."""
    return check(sources(names, tmp_path))


def test_every_file_in_the_folder_is_tried_here() -> None:
    tried = {name for param in LAYERS for name in param.values[0]}  # type: ignore[union-attr]
    assert {path.stem for path in shipped("default").parent.glob("*.yaml")} == tried


@pytest.mark.parametrize("names", LAYERS)
def test_it_has_neither_errors_nor_warnings(configuration: Checked) -> None:
    assert not configuration.configuration.faults.all


@pytest.mark.parametrize("names", LAYERS)
async def test_every_provider_can_be_built(configuration: Checked) -> None:
    application = Application(configuration)
    built = [*_built(application.process.providers), *_built(application.generation.providers)]
    built += _built(application.generation.plugins.providers)
    assert len(built) > len(configuration.plan.plugins)


def _built(named: dict[str, providers.Provider[object]]) -> Iterator[object]:
    return (provider() for provider in named.values() if not isinstance(provider, Plugins))


def meaning(text: str) -> str:
    """The text less its comments at the top, which tell what this loading added."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[next(i for i, line in enumerate(lines) if not line.startswith("#")) :])


@pytest.mark.parametrize("names", LAYERS)
def test_what_it_means_written_out_means_the_same_when_read_again(configuration: Checked) -> None:
    first = configuration.effective()
    again = check(Sources(text=first))
    assert meaning(again.effective()) == meaning(first)


@pytest.mark.parametrize("names", LAYERS)
def test_written_out_once_nothing_needs_to_be_added_any_more(configuration: Checked) -> None:
    assert not any("was added" in note for note in check(Sources(text=configuration.effective())).plan.notes)


@pytest.mark.parametrize("names", LAYERS)
def test_the_settings_are_the_same_when_read_again(configuration: Checked) -> None:
    again = check(Sources(text=configuration.effective())).configuration.settings
    left = {"plugins", "scheduling_profiles", "request_handler"}
    assert again.model_dump(exclude=left) == configuration.configuration.settings.model_dump(exclude=left)


@pytest.mark.parametrize("names", LAYERS)
def test_with_origins_it_reads_as_the_same(configuration: Checked) -> None:
    again = check(Sources(text=configuration.effective(origins=True)))
    assert meaning(again.effective()) == meaning(configuration.effective())


def test_origins_tell_the_layer_of_each_value(tmp_path: Path) -> None:
    lines = check(sources(("default", "prod"), tmp_path)).effective(origins=True).splitlines()
    (timeout,) = [line for line in lines if line.startswith("  timeout: 60s")]
    assert timeout.partition("# ")[2].startswith("builtin:prod:")


def test_origins_tell_what_is_a_default() -> None:
    lines = check(Sources(text="")).effective(origins=True).splitlines()
    assert "  timeout: 30s  # default" in lines


def test_origins_tell_why_something_was_added() -> None:
    assert "# added: metrics are scraped by default" in check(Sources(text="")).effective(origins=True)


# -- completeness


def keys_in_schema(shape: Shape, path: str = "") -> Iterator[str]:
    """The path of every key of the schema."""
    if shape.kind == "list" and shape.inner is not None and shape.inner.model is not None:
        yield f"{path}[]"
        yield from keys_in_schema(shape.inner, f"{path}[]")
    elif shape.model is not None:
        for key in keys_of(shape.model).values():
            below = f"{path}.{key}" if path else key
            yield below
            yield from keys_in_schema(shape_at(shape.model, key), below)


def keys_in(node: Node, path: str = "") -> Iterator[str]:
    """The path of every key that is written."""
    if isinstance(node, Items):
        for item in node.items:
            yield f"{path}[]"
            yield from keys_in(item, f"{path}[]")
    elif isinstance(node, Entries):
        for key, entry in node.entries.items():
            below = f"{path}.{key}" if path else key
            yield below
            yield from keys_in(entry.node, below)


def default_text() -> str:
    """The shipped default."""
    return shipped("default").read_text(encoding="utf-8")


def test_every_key_is_in_the_default_or_is_an_exception_with_a_reason() -> None:
    written = set(keys_in(read_yaml(default_text(), "default", Faults())))
    missing = set(keys_in_schema(ROOT)) - written
    assert not {key for key in missing if not any(key.startswith(left) for left in NOT_IN_DEFAULT)}


def test_no_exception_is_in_the_default_after_all() -> None:
    assert not set(NOT_IN_DEFAULT) & set(keys_in(read_yaml(default_text(), "default", Faults())))


def test_every_exception_is_a_key_of_the_schema() -> None:
    assert set(NOT_IN_DEFAULT) <= set(keys_in_schema(ROOT))


def test_the_comment_on_the_empty_pool_names_every_key_of_an_endpoint() -> None:
    (line,) = [line for line in default_text().splitlines() if "endpoints: []" in line]
    item = [
        key.removeprefix("pool.endpoints[].") for key in keys_in_schema(ROOT) if key.startswith("pool.endpoints[].")
    ]
    assert not [key for key in item if key not in line]


def test_the_default_says_what_the_schema_has_as_defaults() -> None:
    left = {"plugins", "scheduling_profiles", "data_layer", "request_handler"}
    written, model = check(Sources()).configuration.settings, check(Sources(text="")).configuration.settings
    assert written.model_dump(exclude=left) == model.model_dump(exclude=left)


@pytest.mark.parametrize("name", ["default", "dev", "prod"])
def test_each_line_with_a_value_says_what_it_is_for(name: str) -> None:
    lines = shipped(name).read_text(encoding="utf-8").splitlines()
    values = [line for line in lines if ": " in line and not line.lstrip().startswith(("#", "- {pluginRef", "- name"))]
    bare = [line for line in values if "#" not in line and not line.rstrip().endswith(":")]
    assert [line.strip().removeprefix("- ").partition(":")[0] for line in bare if "pluginRef" not in line] in (
        [], ["type"],
    )  # fmt: skip
