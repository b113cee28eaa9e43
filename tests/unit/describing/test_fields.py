"""A field in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, SecretStr

from app.describing.fields import default_of, range_in_words, takes
from app.settings.types import Quantity
from pointsman import Duration, PluginParams, PluginRef, Scorer


class Inner(PluginParams):
    """Something below."""

    size: int = 1


class Params(PluginParams):
    """Fields of all kinds."""

    flag: bool = True
    count: int = Field(default=3, ge=1, le=9)
    share: float = Field(default=0.5, gt=0.0, lt=1.0)
    text: str = Field(default="", min_length=1)
    path: str = Field(default="/", pattern="^/")
    secret: SecretStr = SecretStr("hidden")
    anything: Any = None
    kind: Literal["a", "b"] = "a"
    wait: Duration = Field(default=0.25, ge=0.1)
    maybe: Duration | None = Field(default=None, gt=0)
    bytes: Quantity = 1
    many: tuple[int, ...] = (1, 2)
    bounded: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    waits: list[Duration] = Field(default_factory=list)
    labels: Mapping[str, str | tuple[str, ...]] = Field(default_factory=dict)
    inner: Inner = Field(default_factory=Inner)
    inners: tuple[Inner, ...] = ()
    scorer: PluginRef[Scorer]
    scorers: tuple[PluginRef[Scorer], ...] = ()
    other: complex = 1j


WORDS = {
    "flag": "true or false",
    "count": "whole number",
    "share": "number",
    "text": "text",
    "path": "text",
    "secret": "text",
    "anything": "any value",
    "kind": "`a` or `b`",
    "wait": "duration",
    "maybe": "duration",
    "bytes": "quantity",
    "many": "list of whole numbers",
    "bounded": "list of whole numbers",
    "waits": "list of durations",
    "labels": "mapping of text or list of text",
    "inner": "mapping",
    "inners": "list of mappings",
    "scorer": "name of a Scorer",
    "scorers": "list of name of a Scorer",
    "other": "complex",
}


@pytest.mark.parametrize(("name", "words"), WORDS.items())
def test_a_field_says_what_it_takes(name: str, words: str) -> None:
    field = Params.model_fields[name]
    assert takes(field.annotation, field.metadata) == words


def test_every_kind_of_field_is_tried_here() -> None:
    assert list(WORDS) == list(Params.model_fields)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flag", ""), ("count", "1 to 9"), ("share", "more than 0, less than 1"), ("text", "not empty"),
        ("path", "like `^/`"), ("wait", "at least 100ms"), ("maybe", "more than 0s"),
    ],
)  # fmt: skip
def test_bounds_are_put_in_words(name: str, words: str) -> None:
    assert range_in_words(Params.model_fields[name]) == words


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("flag", True), ("share", 0.5), ("text", ""), ("wait", "250ms"), ("maybe", None), ("many", [1, 2]),
        ("labels", {}), ("inner", {"size": 1}), ("scorer", None),
    ],
)  # fmt: skip
def test_a_default_is_as_yaml_has_it(name: str, default: object) -> None:
    assert default_of(Params, name) == default


def test_a_secret_default_is_not_shown() -> None:
    assert "hidden" not in str(default_of(Params, "secret"))


def test_a_default_that_is_not_json_is_none() -> None:
    class Odd(PluginParams):
        thing: Any = Field(default_factory=object)

    assert default_of(Odd, "thing") is None
