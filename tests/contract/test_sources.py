"""The contract of `MetricsSource`, for every built-in one."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from app.extension import Endpoint, MetricsSource, ScrapeError
from pointsman.testing import check_source, make_endpoint
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.catalogue.catalogue import PluginType


class FakeSource:
    """A source that raises `error`, or returns a page."""

    def __init__(self, error: Exception | None = None, *, interval: float | None = None) -> None:
        self._error = error
        self.interval = interval

    async def fetch(self, endpoint: Endpoint) -> object:
        if self._error is not None:
            raise self._error
        return "a page"


@pytest.fixture
def unreachable() -> Iterator[Endpoint]:
    """An endpoint whose port is bound but does not listen, so that connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield make_endpoint("unreachable", port=taken.getsockname()[1])


@pytest.mark.parametrize("kind", every(MetricsSource))
def test_every_built_in_source_keeps_the_contract(kind: PluginType, unreachable: Endpoint) -> None:
    check_source(build(kind), unreachable)


def test_the_suite_covers_every_module_that_has_a_source() -> None:
    sources = {name for name in modules_in("sources") if name.endswith("source")}
    assert sources <= {kind.cls.__module__ for kind in types_of(MetricsSource)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(FakeSource(), id="returns a page"),
        pytest.param(FakeSource(ScrapeError("broken")), id="not unreachable"),
        pytest.param(FakeSource(ScrapeError("gone", unreachable=True), interval=0.0), id="interval of zero"),
        pytest.param(FakeSource(ScrapeError("gone", unreachable=True), interval=-1.0), id="negative interval"),
    ],
)
def test_the_check_rejects_a_source_that_breaks_the_contract(plugin: FakeSource) -> None:
    with pytest.raises(AssertionError):
        check_source(plugin, make_endpoint())


def test_the_check_raises_another_error() -> None:
    with pytest.raises(LookupError):
        check_source(FakeSource(LookupError()), make_endpoint())


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not a MetricsSource"):
        check_source(object(), make_endpoint())  # type: ignore[arg-type]


def test_the_check_accepts_an_interval() -> None:
    check_source(FakeSource(ScrapeError("gone", unreachable=True), interval=0.5), make_endpoint())
