"""Which plugins of a plan are the same as in the plan before."""

from __future__ import annotations

from typing import Any

import pytest

from app.extension import PluginParams
from app.planning.comparing import unchanged_plugins
from app.planning.plan import Plan, PluginPlan, Reference


class Params(PluginParams):
    """Parameters of the plugins."""

    size: int = 0


class One:
    """A plugin."""


class Two:
    """Another one."""


class Type:
    """What the catalogue knows of a class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls


def plugin(name: str, cls: type = One, size: int = 0, *references: str, **fields: Any) -> PluginPlan:
    """A plugin, which a plan finds by its name."""
    kind: Any = Type(cls)
    type_name = fields.get("type_name", cls.__name__)
    parameters = fields.get("parameters", "{}")
    found = tuple(Reference(reference, object) for reference in references)
    return PluginPlan(name, type_name, kind, parameters, Params(size=size), found)


def plan(*plugins: PluginPlan) -> Plan:
    return Plan({one.name: one for one in plugins}, [], "", [], [], [], None)


@pytest.mark.parametrize(
    ("before", "after", "unchanged"),
    [
        pytest.param([], [], "", id="nothing"),
        pytest.param([plugin("a")], [plugin("a")], "a", id="the same"),
        pytest.param([], [plugin("a")], "", id="new"),
        pytest.param([plugin("a")], [], "", id="gone"),
        pytest.param([plugin("a")], [plugin("b")], "", id="renamed"),
        pytest.param([plugin("a"), plugin("b")], [plugin("b"), plugin("a")], "a b", id="another order"),
        pytest.param([plugin("a", One)], [plugin("a", Two)], "", id="another class"),
        pytest.param([plugin("a", One, 1)], [plugin("a", One, 2)], "", id="other parameters"),
        pytest.param(
            [plugin("a", parameters="{}")], [plugin("a", parameters='{"size": 0}')], "a", id="a default written down"
        ),
        pytest.param(
            [plugin("a", type_name="one")], [plugin("a", type_name="alias-of-one")], "a", id="another name of the type"
        ),
        pytest.param(
            [plugin("a", One, 0, "b"), plugin("b"), plugin("c")],
            [plugin("a", One, 0, "b"), plugin("b", Two), plugin("c")],
            "c",
            id="a reference changed",
        ),
        pytest.param(
            [plugin("a", One, 0, "b"), plugin("b", One, 0, "c"), plugin("c"), plugin("d", One, 0, "e"), plugin("e")],
            [plugin("a", One, 0, "b"), plugin("b", One, 0, "c"), plugin("c", One, 1), plugin("d", One, 0, "e"), plugin("e")],
            "d e",
            id="a reference of a reference changed",
        ),
        pytest.param(
            [plugin("a", One, 0, "b"), plugin("b")],
            [plugin("a", One, 1, "b"), plugin("b")],
            "b",
            id="one that refers to another changed",
        ),
        pytest.param(
            [plugin("a", One, 0, "b")], [plugin("a", One, 0, "b"), plugin("b")], "", id="a reference is new"
        ),
    ],
)  # fmt: skip
def test_a_plugin_is_unchanged_if_its_class_parameters_and_references_are(
    before: list[PluginPlan], after: list[PluginPlan], unchanged: str
) -> None:
    assert unchanged_plugins(plan(*before), plan(*after)) == set(unchanged.split())
