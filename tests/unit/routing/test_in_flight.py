"""Counts of requests in flight."""

from __future__ import annotations

import pytest

from app.routing.in_flight import InFlightRequests


def test_an_endpoint_not_heard_of_has_none() -> None:
    assert InFlightRequests().count("a") == 0


def test_requests_are_counted_per_endpoint_and_in_total() -> None:
    counts = InFlightRequests()
    for name in ("a", "b", "a"):
        counts.enter(name)
    assert (counts.count("a"), counts.count("b"), counts.total) == (2, 1, 3)


def test_a_request_that_left_no_longer_counts() -> None:
    counts = InFlightRequests()
    counts.enter("a")
    counts.enter("a")
    counts.leave("a")
    assert (counts.count("a"), counts.total) == (1, 1)


def test_an_endpoint_without_requests_is_forgotten() -> None:
    counts = InFlightRequests()
    counts.enter("a")
    counts.leave("a")
    assert (counts._counts, counts.total) == ({}, 0)


def test_leaving_without_entering_is_a_bug_that_shows() -> None:
    with pytest.raises(KeyError):
        InFlightRequests().leave("a")
