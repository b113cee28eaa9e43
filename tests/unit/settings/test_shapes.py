"""The structure of models in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from app.settings.picker_config import PluginSpec, ProfileEntry, ProfileSpec
from app.settings.schema import Settings
from app.settings.shapes import VALUE, Shape, fold, identity_of, keys_of, shape_at, shape_of
from app.settings.types import Duration, Many, Section

MODEL = Shape("model", model=PluginSpec)


class Plain(Section):
    """A model whose lists have no names."""


@pytest.mark.parametrize("key", ["hash-block-size", "hashBlockSize", "hash_block_size", "HASH_BLOCK_SIZE"])
def test_all_spellings_of_a_key_fold_to_one(key: str) -> None:
    assert fold(key) == "hashblocksize"


@pytest.mark.parametrize(
    ("annotation", "shape"),
    [
        pytest.param(int, VALUE, id="a number"),
        pytest.param(Any, VALUE, id="anything"),
        pytest.param(Literal["a", "b"], VALUE, id="words"),
        pytest.param(Duration, VALUE, id="a duration"),
        pytest.param(float | None, VALUE, id="an optional number"),
        pytest.param(PluginSpec, MODEL, id="a model"),
        pytest.param(PluginSpec | None, MODEL, id="an optional model"),
        pytest.param(Annotated[PluginSpec | None, Field()], MODEL, id="an annotated optional model"),
        pytest.param(Many[PluginSpec], Shape("list", inner=MODEL), id="many models"),
        pytest.param(list[str], Shape("list", inner=VALUE), id="a list of text"),
        pytest.param(tuple[str, ...], Shape("list", inner=VALUE), id="a tuple of text"),
        pytest.param(dict[str, str], Shape("map", inner=VALUE), id="a free mapping"),
        pytest.param(Mapping[str, PluginSpec], Shape("map", inner=MODEL), id="a free mapping of models"),
        pytest.param(str | list[PluginSpec], Shape("list", inner=MODEL), id="text or models"),
    ],
)
def test_an_annotation_determines_the_shape(annotation: object, shape: Shape) -> None:
    assert shape_of(annotation) == shape


def test_keys_are_spelled_as_in_yaml() -> None:
    assert keys_of(ProfileEntry) == {"pluginref": "pluginRef", "weight": "weight", "enabled": "enabled", "as": "as"}


def test_a_key_with_its_own_alias_keeps_it() -> None:
    shape = shape_at(Settings, "flowControl")
    assert shape.model is not None
    assert keys_of(shape.model)["defaultrequestttl"] == "defaultRequestTTL"


def test_the_shape_under_a_key_is_that_of_its_field() -> None:
    assert shape_at(Settings, "plugins") == Shape("list", inner=MODEL)


@pytest.mark.parametrize(
    ("shape", "identity"),
    [
        pytest.param(shape_of(Many[PluginSpec]), ("name", "type"), id="plugins"),
        pytest.param(shape_of(Many[ProfileSpec]), ("name",), id="profiles"),
        pytest.param(shape_of(Many[ProfileEntry]), ("pluginRef",), id="entries"),
        pytest.param(shape_of(Many[Plain]), (), id="models without a name"),
        pytest.param(shape_of(list[str]), (), id="text"),
        pytest.param(MODEL, (), id="not a list"),
    ],
)
def test_a_named_list_knows_which_keys_can_hold_a_name(shape: Shape, identity: tuple[str, ...]) -> None:
    assert identity_of(shape) == identity
