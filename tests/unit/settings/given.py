"""Helpers that read, merge and load layers from text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from app.extension import PluginParams
from app.settings.configuration import Configuration, load
from app.settings.errors import Faults
from app.settings.layers import Sources, _merge_layer
from app.settings.reader import read_yaml
from app.settings.tree import Entries, Node, Origin, plain


class Nested(PluginParams):
    """Parameters below parameters."""

    top_k: int = 0
    match_labels: dict[str, str] = Field(default_factory=dict)


class Sized(PluginParams):
    """Parameters of the plugin type `sized`."""

    hash_block_size: int = 64
    capacity: int = 1
    tags: tuple[str, ...] = ()
    nested: Nested = Nested()
    several: tuple[Nested, ...] = ()


class Other(PluginParams):
    """Parameters of the plugin type `other`."""

    capacity: int = 2


def params_model(name: str) -> type[BaseModel] | None:
    """The parameter models of the two plugin types in these tests."""
    return {"sized": Sized, "other": Other}.get(name)


def read(text: str | bytes) -> Any:
    """The data in the text, which must have no faults."""
    faults = Faults()
    data = plain(read_yaml(text, "a.yaml", faults))
    assert not faults.all
    return data


def faults_of(text: str | bytes) -> list[str]:
    """The reader's faults, each as `line:column: message`."""
    faults = Faults()
    read_yaml(text, "a.yaml", faults)
    return [f"{f.origin.line}:{f.origin.column}: {f.message}" for f in faults.all]


def layered(*layers: str) -> tuple[Entries, Faults]:
    """The merged layers, lowest precedence first and named `0`, `1` and so on, and their faults."""
    faults = Faults()
    merged: Node = Entries({}, Origin("none"))
    for number, text in enumerate(layers):
        merged = _merge_layer(merged, read_yaml(text, str(number), faults), params_model, faults)
    assert isinstance(merged, Entries)
    return merged, faults


def merged(*layers: str) -> Any:
    """The plain data of the merged layers, which must have no faults."""
    tree, faults = layered(*layers)
    assert not faults.all
    return plain(tree)


def merge_faults(*layers: str) -> list[str]:
    """The faults of the layers, each as `layer:line:column: path: message; hint`."""
    return [str(fault) for fault in layered(*layers)[1].all]


def configuration(
    text: str | None = "", environment: Mapping[str, str] | None = None, sets: tuple[str, ...] = (), *files: str
) -> Configuration:
    """The configuration loaded from these sources."""
    return load(Sources(files=files, text=text, environment=environment or {}, sets=sets), params_model)


def problems(
    text: str | None = "", environment: Mapping[str, str] | None = None, sets: tuple[str, ...] = (), *files: str
) -> list[str]:
    """The faults of these sources."""
    return [str(fault) for fault in configuration(text, environment, sets, *files).faults.all]
