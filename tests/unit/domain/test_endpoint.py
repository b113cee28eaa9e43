"""Endpoints: addresses and comparison."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.endpoint import Endpoint


@pytest.mark.parametrize(
    ("address", "authority"),
    [
        pytest.param("10.0.0.7", "10.0.0.7:8000", id="version 4"),
        pytest.param("fd00::7", "[fd00::7]:8000", id="version 6"),
        pytest.param("::1", "[::1]:8000", id="version 6 loopback"),
        pytest.param("gpu-7.local", "gpu-7.local:8000", id="host name"),
    ],
)
def test_an_authority_has_version_6_in_brackets(address: str, authority: str) -> None:
    assert Endpoint("a", address, 8000).authority == authority


@pytest.mark.parametrize(
    ("metrics_port", "authority"),
    [pytest.param(None, "[::1]:8000", id="the same port"), pytest.param(9000, "[::1]:9000", id="a separate port")],
)
def test_metrics_may_have_a_separate_port(metrics_port: int | None, authority: str) -> None:
    assert Endpoint("a", "::1", 8000, metrics_port=metrics_port).metrics_authority == authority


FIELDS: dict[str, Any] = {"name": "a", "address": "h", "port": 1, "labels": {"x": "y"}, "metrics_port": 2}


def test_endpoints_with_equal_fields_are_the_same_but_not_equal() -> None:
    one, other = Endpoint(**FIELDS), Endpoint(**FIELDS)
    assert (one.same_as(other), one == other) == (True, False)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"name": "b"}, id="name"),
        pytest.param({"address": "i"}, id="address"),
        pytest.param({"port": 3}, id="port"),
        pytest.param({"labels": {"x": "z"}}, id="labels"),
        pytest.param({"metrics_port": None}, id="metrics port"),
    ],
)
def test_endpoints_with_different_fields_are_not_the_same(change: dict[str, Any]) -> None:
    assert not Endpoint(**FIELDS).same_as(Endpoint(**{**FIELDS, **change}))


def test_an_endpoint_without_labels_has_none() -> None:
    assert dict(Endpoint("a", "h", 1).labels) == {}
