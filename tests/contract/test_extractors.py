"""The contract of `Extractor`, for every built-in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.extension import Endpoint, EndpointMetrics, Extractor, ScrapeError
from app.fleet.exposition import Exposition
from pointsman.testing import check_extractor
from tests.contract.built_in import build, every, modules_in, types_of

if TYPE_CHECKING:
    from app.catalogue.catalogue import PluginType

DATA = Path(__file__).parent.parent / "data"


def vllm_pages() -> tuple[Any, Sequence[Any]]:
    good = Exposition((DATA / "vllm-0.32-cpu.txt").read_bytes())
    other = Exposition("python_info 1\n")
    broken = Exposition('vllm:num_requests_waiting{engine="0"} many\n')
    return good, (other, broken)


PAYLOADS: Mapping[str, Any] = {"core-metrics-extractor": vllm_pages}
"""Functions that return a valid payload and invalid ones, by type."""


class FakeExtractor:
    """An extractor that returns `metrics` for every payload but those in `invalid`."""

    def __init__(self, metrics: EndpointMetrics, *invalid: object) -> None:
        self._metrics = metrics
        self._invalid = invalid

    def extract(self, endpoint: Endpoint, payload: Any) -> EndpointMetrics:
        if payload in self._invalid:
            raise ScrapeError("invalid")
        return self._metrics


@pytest.mark.parametrize("kind", every(Extractor))
def test_every_built_in_extractor_keeps_the_contract(kind: PluginType) -> None:
    good, bad = PAYLOADS[kind.mark.type]()
    check_extractor(build(kind), good, bad)


def test_the_suite_covers_every_module_that_has_an_extractor() -> None:
    extractors = {name for name in modules_in("sources") if name.endswith("extractor")}
    assert extractors <= {kind.cls.__module__ for kind in types_of(Extractor)}


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param(EndpointMetrics(waiting=-1.0), id="negative queue"),
        pytest.param(EndpointMetrics(running=-1.0), id="negative batch"),
        pytest.param(EndpointMetrics(kv_cache_usage=1.5), id="usage over one"),
        pytest.param(EndpointMetrics(kv_cache_usage=-0.5), id="negative usage"),
    ],
)
def test_the_check_rejects_metrics_out_of_range(metrics: EndpointMetrics) -> None:
    with pytest.raises(AssertionError):
        check_extractor(FakeExtractor(metrics), "good", [])


def test_the_check_rejects_an_extractor_that_accepts_every_payload() -> None:
    with pytest.raises(AssertionError, match="invalid payload"):
        check_extractor(FakeExtractor(EndpointMetrics(), "worse"), "good", ["worse", "bad"])


def test_the_check_accepts_an_extractor_that_rejects_invalid_payloads() -> None:
    check_extractor(FakeExtractor(EndpointMetrics(waiting=3.0), "worse", "bad"), "good", ["worse", "bad"])


def test_the_check_rejects_another_object() -> None:
    with pytest.raises(AssertionError, match="not an Extractor"):
        check_extractor(object(), "good", [])  # type: ignore[arg-type]
