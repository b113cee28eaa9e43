"""Helpers for tests of plugins: builders of requests and candidates, and checks of each extension point's contract.

def test_my_scorer():
    check_scorer(MyScorer(MyScorer.Params()))
    busy, idle = make_endpoint("busy"), make_endpoint("idle")
    candidates = make_candidates(busy, idle, waiting=[9, 0])
    assert list(MyScorer(MyScorer.Params()).score(make_request(), candidates)) == [0, 1]
"""

from pointsman.builders import (
    FakeClock,
    FakeEndpointsFiles,
    FakePool,
    example_params,
    make_candidates,
    make_decision,
    make_endpoint,
    make_outcome,
    make_request,
)
from pointsman.contracts import (
    check_discovery,
    check_extractor,
    check_filter,
    check_parser,
    check_picker,
    check_producer,
    check_profile_picker,
    check_scorer,
    check_source,
    sample_candidates,
    sample_requests,
)

__all__ = [
    "FakeClock",
    "FakeEndpointsFiles",
    "FakePool",
    "check_discovery",
    "check_extractor",
    "check_filter",
    "check_parser",
    "check_picker",
    "check_producer",
    "check_profile_picker",
    "check_scorer",
    "check_source",
    "example_params",
    "make_candidates",
    "make_decision",
    "make_endpoint",
    "make_outcome",
    "make_request",
    "sample_candidates",
    "sample_requests",
]
