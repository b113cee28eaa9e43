"""What plugins inherit at a reload, and from which predecessor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.domain.named import Named
from app.inheritance import hand_over


class Learner:
    def __init__(self) -> None:
        self.predecessor: Any = None

    def inherit_from(self, predecessor: Any) -> None:
        self.predecessor = predecessor


class Other(Learner):
    pass


class Plain:
    predecessor = None


def named(classes: Mapping[str, type]) -> list[Named[Any]]:
    return [Named(name, cls()) for name, cls in classes.items()]


@pytest.mark.parametrize(
    ("before", "after", "inherited"),
    [
        pytest.param({"a": Learner}, {"a": Learner}, {"a": "a"}, id="the same name"),
        pytest.param({"a": Learner}, {"b": Learner}, {"b": "a"}, id="renamed"),
        pytest.param({"a": Learner, "b": Learner}, {"b": Learner, "a": Learner}, {"a": "a", "b": "b"}, id="several"),
        pytest.param({"a": Learner, "b": Learner}, {"a": Learner, "c": Learner}, {"a": "a"}, id="one of two renamed"),
        pytest.param({"a": Learner}, {"a": Learner, "b": Learner}, {"a": "a"}, id="one added"),
        pytest.param({"a": Learner}, {"b": Learner, "c": Learner}, {}, id="renamed and one added"),
        pytest.param({"a": Learner, "b": Learner}, {"b": Learner}, {"b": "b"}, id="one removed"),
        pytest.param({"a": Learner, "b": Learner}, {"c": Learner}, {}, id="renamed and one removed"),
        pytest.param({"a": Learner}, {"a": Other}, {}, id="another class of the same name"),
        pytest.param({"a": Learner, "b": Other}, {"c": Other, "d": Learner}, {"c": "b", "d": "a"}, id="two classes"),
        pytest.param({"a": Learner}, {"a": Plain, "b": Learner}, {"b": "a"}, id="the name went to another class"),
        pytest.param({"a": Plain}, {"a": Plain}, {}, id="nothing to inherit"),
        pytest.param({}, {"a": Learner}, {}, id="nothing before"),
        pytest.param({"a": Learner}, {}, {}, id="nothing after"),
    ],
)
def test_plugins_inherit_by_name_or_as_the_only_one_of_their_class(
    before: Mapping[str, type], after: Mapping[str, type], inherited: Mapping[str, str]
) -> None:
    old, new = named(before), named(after)
    hand_over(old, new)
    names = {one.plugin: one.name for one in old}
    assert {one.name: names[one.plugin.predecessor] for one in new if one.plugin.predecessor} == inherited
