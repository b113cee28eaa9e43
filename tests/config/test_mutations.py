"""A key of which one letter is wrong never passes: two thousand slips in good configurations, each of them refused."""

from __future__ import annotations

import copy
import json
import os
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import AliasChoices, BaseModel

from app.planning.planner import plan
from app.settings.configuration import load
from app.settings.dialects.forms import DOCUMENT, WeightedPlugin
from app.settings.errors import ConfigurationError, Faults
from app.settings.layers import Sources
from app.settings.picker_config import PluginSpec
from app.settings.reader import read_yaml
from app.settings.shapes import Shape, fold, keys_of, shape_at
from app.settings.tree import plain
from containers.application import catalogue, check

from .test_corpus import GOOD, furnish

CASES, CHUNK = 2000, 100
NOT_IN_THE_CORPUS = {
    "MetricsDataSource.Params.caCertPath": "names a file that must exist",
    "MetricsDataSource.Params.clientCertPath": "names a file that must exist",
    "MetricsDataSource.Params.clientKeyPath": "names a file that must exist",
}
CATALOGUE = catalogue()
SHORT_PROFILE = Shape("list", inner=Shape("model", model=WeightedPlugin))
"""What stands below a profile's name in `endpointPickingProfiles`."""


@dataclass(frozen=True)
class Site:
    """A key of a model, somewhere in a configuration."""

    file: Path
    path: tuple[str | int, ...]
    """Of the mapping that has the key."""
    key: str
    """As it is written."""
    model: type[BaseModel]

    @property
    def field(self) -> str:
        """Which key of which model it is."""
        return f"{self.model.__qualname__}.{keys_of(self.model)[fold(self.key)]}"


def sites_in(file: Path, data: Mapping[str, Any]) -> Iterator[Site]:
    """Every key in a configuration that belongs to a model: of the schema, of a form, or of a plugin's parameters."""
    types = {p.get("name", p.get("type")): p["type"] for p in data.get("plugins") or ()}
    types |= {p.get("name", p.get("plugin")): p["plugin"] for p in data.get("plugin_references") or ()}

    def visit(node: Any, shape: Shape, path: tuple[str | int, ...]) -> Iterator[Site]:
        if isinstance(node, dict) and shape.model is not None:
            for written, value in node.items():
                below = shape_below(node, shape.model, written)
                if below is not None:
                    yield Site(file, path, written, shape.model)
                yield from visit(value, below or SHORT_PROFILE, (*path, written))
        elif shape.inner is not None:
            for step, child in node.items() if isinstance(node, dict) else enumerate(node or ()):
                yield from visit(child, shape.inner, (*path, step))

    def shape_below(node: Mapping[str, Any], model: type[BaseModel], written: str) -> Shape | None:
        """None for a profile of the short form, whose name is its key."""
        key = keys_of(model).get(fold(written))
        if key not in {"parameters", "args"}:
            return None if key is None else shape_at(model, key)
        named = node.get("type") or node.get("plugin") or node.get("name") or ""
        parameters = CATALOGUE.params_model(types.get(named, named))
        return Shape("model", model=parameters)

    return visit(data, DOCUMENT, ())


def read(file: Path) -> Any:
    return plain(read_yaml(file.read_bytes(), file.name, Faults()))


def names_of(model: type[BaseModel]) -> set[str]:
    """All names of a model's fields, folded."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias or field.alias or name]
        names |= {str(choice).replace("-", "").replace("_", "").lower() for choice in choices}
    return names


def with_a_slip(key: str, random: Random) -> str:
    """`key` with a letter left out, put in, or changed places with the next one."""
    at = random.randrange(len(key))
    match random.choice(["left out", "put in", "changed places"]):
        case "left out":
            return key[:at] + key[at + 1 :]
        case "put in":
            return key[:at] + random.choice(string.ascii_letters) + key[at:]
        case _:
            return key[:at] + key[at + 1 : at + 2] + key[at] + key[at + 2 :]


def slip_in(site: Site, random: Random) -> str:
    """A slip in the site's key that makes it neither itself nor another key of that place."""
    while True:
        slip = with_a_slip(site.key, random)
        if fold(slip) not in {*names_of(site.model), fold(site.key), ""}:
            return slip


def slipped(data: Any, site: Site, slip: str) -> Any:
    """A copy of `data` in which the site's key is `slip`."""
    changed = copy.deepcopy(data)
    if not site.path:
        return renamed(changed, site.key, slip)
    *above, last = site.path
    holder = changed
    for step in above:
        holder = holder[step]
    holder[last] = renamed(holder[last], site.key, slip)
    return changed


def renamed(mapping: Mapping[str, Any], old: str, new: str) -> Mapping[str, Any]:
    """`mapping` with one key called otherwise, in its place."""
    return {new if key == old else key: value for key, value in mapping.items()}


def errors_of(text: str) -> Sequence[str]:
    """What `check` refuses `text` with; nothing is built, which nothing here needs."""
    try:
        configuration = load(Sources(text=text), CATALOGUE.params_model)
        configuration.require_no_errors()
        plan(configuration, CATALOGUE)
    except ConfigurationError as error:
        return [str(fault) for fault in error.faults if fault.severity == "error"]
    return []


@pytest.fixture(scope="module", autouse=True)
def _working_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, before = tmp_path_factory.mktemp("mutations"), Path.cwd()
    furnish(folder)
    os.chdir(folder)
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def configurations(_working_directory: None) -> Mapping[Path, Any]:
    return {file: read(file) for file in GOOD}


@pytest.fixture(scope="module")
def fields(configurations: Mapping[Path, Any]) -> Mapping[str, Sequence[Site]]:
    """The sites of each key of each model."""
    found: dict[str, list[Site]] = {}
    for file, data in configurations.items():
        for site in sites_in(file, data):
            found.setdefault(site.field, []).append(site)
    return dict(sorted(found.items()))


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in range(CHUNK, CASES, CHUNK))]
)
def test_a_key_with_a_slip_is_refused(
    start: int, configurations: Mapping[Path, Any], fields: Mapping[str, Sequence[Site]]
) -> None:
    names = list(fields)
    silent, unclear = [], []
    for number in range(start, start + CHUNK):
        random = Random(number)
        site = random.choice(fields[names[number % len(names)]])
        slip = slip_in(site, random)
        case = f"{site.file.name}: {site.field} as {slip!r}"
        found = errors_of(json.dumps(slipped(configurations[site.file], site, slip)))
        if not found:
            silent.append(case)
        elif not any(repr(slip) in error for error in found):
            unclear.append(f"{case}: {found}")
    assert not silent
    assert not unclear


# -- that this tests what it says


def test_the_configurations_are_fine_without_a_slip(configurations: Mapping[Path, Any]) -> None:
    assert not [file.name for file, data in configurations.items() if errors_of(json.dumps(data))]


def test_check_refuses_what_is_refused_here() -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'plugns'"):
        check(Sources(text='{"plugns": []}'), CATALOGUE)
    assert errors_of('{"plugns": []}')


def test_nearly_every_key_of_the_schema_and_of_the_plugins_is_slipped_in(fields: Mapping[str, Sequence[Site]]) -> None:
    expected = {*keys_below(DOCUMENT)}
    for found in CATALOGUE.built_in.values():
        expected |= {*keys_below(Shape("model", model=found.params))}
    missing = expected - set(fields)
    assert missing == set(NOT_IN_THE_CORPUS)


def keys_below(shape: Shape) -> Iterator[str]:
    """Every key of every model below `shape`; of a list of plugins the parameters come with each plugin."""
    if shape.inner is not None:
        yield from keys_below(shape.inner)
    if shape.model is not None:
        for key in dict.fromkeys(keys_of(shape.model).values()):
            yield f"{shape.model.__qualname__}.{key}"
            if shape.model is not PluginSpec or key != "parameters":
                yield from keys_below(shape_at(shape.model, key))
