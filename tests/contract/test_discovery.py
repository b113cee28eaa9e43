"""The contract of `Discovery`, for every built-in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.extension import Discovery, DiscoveryError, Endpoint, EndpointSink
from pointsman.testing import check_discovery, make_endpoint
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType


def file_with_a_and_b(folder: Path) -> Mapping[str, Any]:
    path = folder / "endpoints.yaml"
    entries = [f"{{name: {name}, address: 10.0.0.1, port: 8000}}" for name in "ab"]
    path.write_text(f"endpoints: [{', '.join(entries)}]\n")
    return {"path": str(path)}


PARAMETERS: Mapping[str, Callable[[Path], Mapping[str, Any]]] = {"file-discovery": file_with_a_and_b}
"""Parameters with which each type finds `a` and `b`."""


class FakeDiscovery:
    """A discovery that finds `endpoints`."""

    def __init__(self, *endpoints: Endpoint, error: Exception | None = None) -> None:
        self._endpoints = endpoints
        self._error = error

    async def discover(self, sink: EndpointSink) -> None:
        if self._error is not None:
            raise self._error
        sink.replace_all(self._endpoints)

    def check(self) -> None:
        """Nothing to check."""


@pytest.mark.parametrize("kind", every(Discovery))
def test_every_built_in_discovery_keeps_the_contract(kind: PluginType, tmp_path: Path) -> None:
    check_discovery(build(kind, PARAMETERS[kind.mark.type](tmp_path)), ["a", "b"])


def test_the_suite_covers_every_module_of_discovery() -> None:
    assert modules_in("discovery") <= {kind.cls.__module__ for kind in types_of(Discovery)}


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["a"], id="one is missing"),
        pytest.param(["a", "b", "c"], id="one too many"),
        pytest.param(["a", "b", "b"], id="one twice"),
        pytest.param([], id="none"),
    ],
)
def test_the_check_rejects_a_discovery_that_finds_other_endpoints(names: list[str]) -> None:
    with pytest.raises(AssertionError):
        check_discovery(FakeDiscovery(*map(make_endpoint, names)), ["a", "b"])


def test_the_check_raises_the_discovery_s_error() -> None:
    with pytest.raises(DiscoveryError):
        check_discovery(FakeDiscovery(error=DiscoveryError("broken")), ["a"])


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a Discovery"):
        check_discovery(object(), [])  # type: ignore[arg-type]
