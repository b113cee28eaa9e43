"""What every source of metrics promises, for every built-in one."""

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


class Failing:
    """A source that fails with `error`, or gives something."""

    def __init__(self, error: Exception | None = None, *, interval: float | None = None) -> None:
        self._error = error
        self.interval = interval

    async def fetch(self, endpoint: Endpoint) -> object:
        if self._error is not None:
            raise self._error
        return "a page"


@pytest.fixture
def nobody() -> Iterator[Endpoint]:
    """An endpoint at whose port nothing listens, and nothing will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield make_endpoint("nobody", port=taken.getsockname()[1])


@pytest.mark.parametrize("kind", every(MetricsSource))
def test_every_built_in_source_keeps_the_contract(kind: PluginType, nobody: Endpoint) -> None:
    check_source(build(kind), nobody)


def test_the_suite_covers_every_module_that_has_a_source() -> None:
    sources = {name for name in modules_in("sources") if name.endswith("source")}
    assert sources <= {kind.cls.__module__ for kind in types_of(MetricsSource)}


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Failing(), id="gives something"),
        pytest.param(Failing(ScrapeError("broken")), id="does not say unreachable"),
        pytest.param(Failing(ScrapeError("gone", unreachable=True), interval=0.0), id="interval of zero"),
        pytest.param(Failing(ScrapeError("gone", unreachable=True), interval=-1.0), id="negative interval"),
    ],
)
def test_the_check_finds_a_source_that_breaks_the_promise(plugin: Failing) -> None:
    with pytest.raises(AssertionError):
        check_source(plugin, make_endpoint())


def test_the_check_lets_another_error_through() -> None:
    with pytest.raises(LookupError):
        check_source(Failing(LookupError()), make_endpoint())


def test_the_check_finds_something_that_is_no_source() -> None:
    with pytest.raises(AssertionError, match="no MetricsSource"):
        check_source(object(), make_endpoint())  # type: ignore[arg-type]


def test_the_check_takes_a_source_with_an_interval_of_its_own() -> None:
    check_source(Failing(ScrapeError("gone", unreachable=True), interval=0.5), make_endpoint())
