"""A request with facts is the same request."""

from __future__ import annotations

from dataclasses import fields

from app.domain.facts import Facts
from app.domain.request import InferenceRequest

WHOLE = InferenceRequest(
    "id",
    "/path",
    "PUT",
    "model",
    "adapter",
    "salt",
    (b"prompt",),
    {"a": "b"},
    streaming=True,
    max_output_tokens=7,
    size=9,
    media=3,
)


def test_facts_are_all_that_changes() -> None:
    facts = Facts()
    changed = [
        field.name
        for field in fields(WHOLE)
        if getattr(WHOLE.with_facts(facts), field.name) is not getattr(WHOLE, field.name)
    ]
    assert changed == ["facts"]
    assert WHOLE.with_facts(facts).facts is facts


def test_the_example_has_no_field_left_at_its_default() -> None:
    plain = InferenceRequest("other", "other")
    assert [field.name for field in fields(WHOLE) if getattr(plain, field.name) == getattr(WHOLE, field.name)] == [
        "facts"
    ]
