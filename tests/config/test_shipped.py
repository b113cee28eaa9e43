"""The shipped files: complete, fine, and the same when what they show is loaded again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings.errors import Faults
from app.settings.layers import ROOT, Sources, shipped
from app.settings.reader import read_yaml
from app.settings.shapes import Shape, keys_of, shape_at
from app.settings.tree import Entries, plain
from containers.assembly import Checked, check

LAYERS = [("default",), ("default", "dev"), ("default", "prod")]

NOT_IN_DEFAULT = {
    "flowControl": "does nothing in this version",
    "requestHandler": "does nothing in this version",
    "saturationDetector": "deprecated",
    "parser": "deprecated",
    "featureGates": "features of the Go pickers",
    "dataLayer.discovery": "is instead of pool.endpoints; in prod.yaml",
}


def load(layers: tuple[str, ...], tmp_path: Path) -> Checked:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("endpoints: [{name: a, address: 10.0.0.1, port: '8000'}]")
    sets = [f"plugins[endpoints].parameters.path={endpoints}"] if "prod" in layers else []
    return check(Sources(tuple(f"builtin:{name}" for name in layers), sets=sets))


@pytest.mark.parametrize("layers", LAYERS, ids=" + ".join)
def test_it_is_fine_without_a_warning(layers: tuple[str, ...], tmp_path: Path) -> None:
    assert not load(layers, tmp_path).configuration.faults.all


@pytest.mark.parametrize("layers", LAYERS, ids=" + ".join)
def test_what_it_shows_loads_to_the_same(layers: tuple[str, ...], tmp_path: Path) -> None:
    shown = load(layers, tmp_path).effective()
    again = check(Sources(text=shown)).effective()
    assert [line for line in again.splitlines() if line[0] != "#"] == [
        line for line in shown.splitlines() if line[0] != "#"
    ]


def test_the_default_file_has_every_key() -> None:
    written = plain(read_yaml(shipped("default").read_bytes(), "default", Faults()))
    assert set(missing(written, ROOT, "")) == set(NOT_IN_DEFAULT)


def missing(data: object, shape: Shape, path: str) -> Iterator[str]:
    """Keys of mappings that `data` lacks; what stands in lists is each item's own."""
    if shape.kind != "model" or shape.model is None or not isinstance(data, dict):
        return
    for key in keys_of(shape.model).values():
        here = f"{path}.{key}" if path else key
        if key not in data:
            yield here
        else:
            yield from missing(data[key], shape_at(shape.model, key), here)


@pytest.mark.parametrize("name", ["default", "dev", "prod"])
def test_each_key_has_a_line_on_what_it_does(name: str) -> None:
    lines = shipped(name).read_text().splitlines()
    leaves = [
        line
        for line in lines
        if line.strip().startswith(tuple("abcdefghijklmnopqrstuvwxyz")) and not line.rstrip().endswith(":")
    ]
    assert not [line for line in leaves if "#" not in line]


def test_a_default_in_the_file_is_the_schemas_default() -> None:
    from_file = check(Sources(("builtin:default",))).configuration
    from_schema = check(Sources(text="kind: EndpointPickerConfig")).configuration
    for section in ("transports", "pool", "routing", "observability", "shutdown", "simulation"):
        assert getattr(from_file.settings, section) == getattr(from_schema.settings, section), section


def test_origins_name_the_layer_that_set_a_value(tmp_path: Path) -> None:
    shown = load(("default", "dev"), tmp_path).effective(origins=True)
    assert "    format: console  # builtin:dev:" in shown
    assert "    interval: 1s  # builtin:default:" in shown
    assert "      autoTune: true  # added: prefix-cache-scorer needs prefix-hits" in shown


def test_a_secret_of_a_plugin_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "keyed.py"
    path.write_text(
        "from pydantic import SecretStr\nfrom pointsman import PluginParams\n"
        "class Keyed:\n"
        "    class Params(PluginParams):\n        key: SecretStr\n"
        "    def __init__(self, params: Params) -> None:\n        self.params = params\n"
        "    def score(self, request, candidates): return [0.0 for _ in candidates]\n"
    )
    text = f"plugins: [{{name: k, type: '{path}:Keyed', parameters: {{key: hunter2}}}}]"
    checked = check(Sources(text=text))
    assert "hunter2" not in checked.effective(origins=True)
    assert checked.container().generation().plugins.k().params.key.get_secret_value() == "hunter2"


def test_the_environment_is_no_layer_of_a_container_for_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_POOL__SCRAPE__INTERVAL", "9s")
    assert check(Sources()).configuration.settings.pool.scrape.interval == 1


def test_every_layer_is_a_mapping() -> None:
    assert all(
        isinstance(read_yaml(shipped(name).read_bytes(), name, Faults()), Entries)
        for name in ("default", "dev", "prod")
    )


def test_the_parameters_of_a_disabled_plugin_are_not_shown() -> None:
    text = "plugins: [{type: max-score-picker}, {type: file-discovery, enabled: false, parameters: {path: hunter2}}]"
    assert "hunter2" not in check(Sources(text=text)).effective()


def test_an_older_parameter_means_the_same_when_what_is_shown_is_loaded() -> None:
    text = "plugins: [{type: approx-prefix-cache-producer, parameters: {blockSize: 128, autoTune: false}}]"
    shown = check(Sources(text=text)).effective()
    for source in (text, shown):
        producer = (
            check(Sources(text=source)).container().generation().plugins.providers["approx-prefix-cache-producer"]()
        )
        assert producer._block_tokens == 128
