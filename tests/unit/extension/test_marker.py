"""The marker that makes a class a plugin."""

from __future__ import annotations

import pytest

from app.extension.marker import PluginMark, mark_of, plugin


@plugin("mine", aliases=("old-name",), stability="alpha", category="balance")
class Marked:
    """A plugin."""


class Child(Marked):
    """No plugin of its own."""


def test_a_mark_says_what_it_was_given() -> None:
    assert mark_of(Marked) == PluginMark("mine", ("old-name",), "alpha", "balance")


def test_a_mark_leaves_the_class_as_it_is() -> None:
    assert (Marked.__name__, isinstance(Marked(), Marked)) == ("Marked", True)


class Pretender:
    """Has the attribute, set to something else."""

    __pointsman_plugin__ = "mine"


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(Child, id="child of a plugin"),
        pytest.param(Marked(), id="instance"),
        pytest.param(Pretender, id="something else under the name"),
        pytest.param(len, id="function"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_was_not_marked_itself_has_no_mark(thing: object) -> None:
    assert mark_of(thing) is None
