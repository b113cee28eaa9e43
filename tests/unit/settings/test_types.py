"""Field types of the schema."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.settings.types import Duration, Many, Port, Quantity, Section


class Sample(Section):
    """One field of each type."""

    wait_for: Duration = 1.0
    body_bytes: Quantity = 0
    port: Port = 0
    names: Many[str] = ()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param(1024, 1024, id="a number"),
        pytest.param("1024", 1024, id="text without a unit"),
        pytest.param("500M", 500_000_000, id="mega"),
        pytest.param("1Gi", 2**30, id="gibi"),
        pytest.param("64Ki", 65536, id="kibi"),
        pytest.param("2Ei", 2**61, id="exbi"),
        pytest.param("1.5Gi", 3 * 2**29, id="a fraction of a gibi"),
        pytest.param(".5k", 500, id="a leading point"),
        pytest.param("1m", 1, id="a thousandth rounds up"),
        pytest.param("2000m", 2, id="thousandths that are whole"),
        pytest.param("-1.5", -1, id="a negative one rounds up too"),
        pytest.param("+3", 3, id="a plus sign"),
        pytest.param("2.007k", 2007, id="a fraction that floats can not represent"),
        pytest.param("9007199254740993", 2**53 + 1, id="more digits than floats have"),
    ],
)
def test_a_quantity_is_a_whole_number(text: object, number: int) -> None:
    assert TypeAdapter(Quantity).validate_python(text) == number


@pytest.mark.parametrize(
    "value",
    ["", "x", "1 Gi", "1GB", "1gi", "Gi", 1.5, True, None, [1], "nan", "9" * 400 + "x"],
    ids=repr,
)
def test_anything_else_is_not_a_quantity(value: object) -> None:
    with pytest.raises(ValidationError, match="expected a quantity such as 1024, 500M or 1Gi"):
        TypeAdapter(Quantity).validate_python(value)


def test_a_quantity_may_exceed_the_range_of_floats() -> None:
    assert TypeAdapter(Quantity).validate_python("9" * 400) == int("9" * 400)


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("1h30m", 5400.0), ("0s", 0.0)])
def test_a_duration_is_seconds(text: object, seconds: float) -> None:
    assert Sample(waitFor=text).wait_for == seconds  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["1", "x", 1, True, None], ids=repr)
def test_a_duration_needs_a_unit(value: Any) -> None:
    with pytest.raises(ValidationError, match="expected a duration such as 250ms"):
        Sample(waitFor=value)


def test_a_duration_is_dumped_as_text() -> None:
    assert Sample(waitFor="1m30s").model_dump(by_alias=True)["waitFor"] == "90s"  # type: ignore[arg-type]


def test_a_list_fills_a_tuple() -> None:
    assert Sample(names=["a", "b"]).names == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["ab", {"a": 1}, 5], ids=["text", "a mapping", "a number"])
def test_only_a_list_fills_a_tuple(value: Any) -> None:
    with pytest.raises(ValidationError):
        Sample(names=value)


@pytest.mark.parametrize("value", [-1, 65536, "80", 80.0, True], ids=repr)
def test_an_invalid_port_is_rejected(value: Any) -> None:
    with pytest.raises(ValidationError):
        Sample(port=value)


def test_a_section_rejects_unknown_keys() -> None:
    with pytest.raises(ValidationError):
        Sample(prot=80)  # type: ignore[call-arg]


def test_a_section_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Sample().port = 5  # type: ignore[misc]
