"""The decorator that names a plugin class."""

from __future__ import annotations

import pytest

from app.extension.marker import PluginMark, mark_of, plugin


@plugin("mine", aliases=("old-name",), stability="alpha", category="balance")
class Marked:
    """A plugin."""


class Child(Marked):
    """Not a plugin, though its base class is one."""


def test_a_mark_has_the_decorator_s_arguments() -> None:
    assert mark_of(Marked) == PluginMark("mine", ("old-name",), "alpha", "balance")


def test_the_decorator_does_not_change_the_class() -> None:
    assert (Marked.__name__, isinstance(Marked(), Marked)) == ("Marked", True)


class Impostor:
    """Has the attribute with another value."""

    __pointsman_plugin__ = "mine"


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(Child, id="subclass of a plugin"),
        pytest.param(Marked(), id="instance"),
        pytest.param(Impostor, id="another value under the name"),
        pytest.param(len, id="function"),
        pytest.param(None, id="nothing"),
    ],
)
def test_only_a_decorated_class_has_a_mark(thing: object) -> None:
    assert mark_of(thing) is None
