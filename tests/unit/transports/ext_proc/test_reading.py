"""Reading a proxy's messages: headers, the subset for a request, the serving endpoint, and failures."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.config.core.v3.base_pb2 import HeaderMap
from envoy.service.ext_proc.v3.external_processor_pb2 import HttpHeaders
from hypothesis import given, settings
from hypothesis import strategies as st

from app.transports.control_headers import SERVED, SUBSET
from app.transports.ext_proc.reading import (
    ATTRIBUTES,
    BALANCING_NAMESPACE,
    SUBSET_NAMESPACE,
    failure_of,
    headers_of,
    model_rewrite_of,
    served_by,
    subset_of,
    target_of,
)
from tests.support.ext_proc import answer_headers, hinting, request_body, request_headers, request_trailers

# -- headers


def headers(*fields: tuple[str, bytes | str]) -> HttpHeaders:
    """Headers, each with its value as bytes or as text."""
    made = HeaderMap()
    for name, value in fields:
        kind = "value" if isinstance(value, str) else "raw_value"
        made.headers.add(key=name, **{kind: value})
    return HttpHeaders(headers=made)


@pytest.mark.parametrize(
    ("given_headers", "expected"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([("a", b"1"), (":path", b"/x")], {"a": "1", ":path": "/x"}, id="bytes"),
        pytest.param([("a", "1")], {"a": "1"}, id="text"),
        pytest.param([("X-A", b"Yes")], {"x-a": "Yes"}, id="name in upper case"),
        pytest.param([("a", b"1"), ("A", "2"), ("a", b"3")], {"a": "1, 2, 3"}, id="repeated"),
        pytest.param([("a", b"")], {"a": ""}, id="empty"),
        pytest.param([("a", b"\xff")], {"a": "�"}, id="invalid UTF-8"),
        pytest.param([("a", "é".encode())], {"a": "é"}, id="not ASCII"),
    ],
)
def test_headers_have_lower_case_names_and_one_value(given_headers: Any, expected: dict[str, str]) -> None:
    assert headers_of(headers(*given_headers)) == expected


def test_bytes_take_precedence_over_text() -> None:
    head = headers(("a", b"bytes"))
    head.headers.headers[0].value = "text"
    assert headers_of(head) == {"a": "bytes"}


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({}, "/"),
        ({":path": "/a?b"}, "/a?b"),
        ({":path": "", "x-original-path": "/b", "x-forwarded-path": "/c"}, "/b"),
        ({"x-forwarded-path": "/c"}, "/c"),
        ({":path": "/a", "x-original-path": "/b"}, "/a"),
    ],
)
def test_the_target_is_the_path_or_an_original_path(fields: dict[str, str], target: str) -> None:
    assert target_of(fields) == target


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({}, ""),
        ({"x-llm-d-model-name-rewrite": "a"}, "a"),
        ({"x-gateway-model-name-rewrite": "b"}, "b"),
        ({"x-gateway-model-name-rewrite": "b", "x-llm-d-model-name-rewrite": "a"}, "a"),
        ({"x-llm-d-model-name-rewrite": " ", "x-gateway-model-name-rewrite": " b "}, "b"),
    ],
)
def test_the_new_name_of_a_header_takes_precedence_over_the_old_one(fields: dict[str, str], model: str) -> None:
    assert model_rewrite_of(fields) == model


# -- the subset


@pytest.mark.parametrize(
    "message", [request_headers(), request_body(), request_trailers()], ids=["head", "body", "end"]
)
@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        (["10.0.0.1:80"], {"10.0.0.1:80"}),
        (["10.0.0.1:80", "10.0.0.2:81"], {"10.0.0.1:80", "10.0.0.2:81"}),
        ("10.0.0.1:80", {"10.0.0.1:80"}),
        ("10.0.0.1:80,[FD00::1]:81", {"10.0.0.1:80", "[fd00::1]:81"}),
        (" 10.0.0.1:80 , 10.0.0.1:80,", {"10.0.0.1:80"}),
        (["10.0.0.1:80", "10.0.0.1", "x", "", 7, True, None, {"a": 1}], {"10.0.0.1:80"}),
        ([], set()),
        ("", set()),
        (["10.0.0.1"], set()),
        (None, None),
        (7, None),
        (True, None),
        ({"a": "10.0.0.1:80"}, None),
    ],
    ids=str,
)
def test_a_subset_is_a_list_or_a_string(message: Any, subset: Any, expected: set[str] | None) -> None:
    hinting(message, subset)
    assert subset_of(message) == expected


def test_without_a_subset_all_endpoints_are_allowed() -> None:
    other_key, other_namespace = request_headers(), request_headers()
    other_key.metadata_context.filter_metadata[SUBSET_NAMESPACE].update({"x": ["10.0.0.1:80"]})
    other_namespace.metadata_context.filter_metadata[BALANCING_NAMESPACE].update({SUBSET: ["10.0.0.1:80"]})
    assert [subset_of(message) for message in (request_headers(), other_key, other_namespace)] == [None] * 3


def test_a_value_without_a_kind_is_no_subset() -> None:
    message = request_headers()
    message.metadata_context.filter_metadata[SUBSET_NAMESPACE].fields[SUBSET].SetInParent()
    assert subset_of(message) is None


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30))
def test_any_text_can_be_read(text: str) -> None:
    for subset in (text, [text], f"10.0.0.1:80,{text}"):
        assert subset_of(hinting(request_headers(), subset)) is not None
    assert isinstance(served_by(answer_headers(served=text)), str)


def test_an_address_with_a_very_long_port_matches_no_endpoint() -> None:
    assert subset_of(hinting(request_headers(), "10.0.0.1:" + "1" * 5000)) == frozenset()


# -- the serving endpoint


@pytest.mark.parametrize(
    ("metadata", "attribute", "expected"),
    [
        ("10.0.0.1:80", None, "10.0.0.1:80"),
        (" 10.0.0.1:80 ", None, "10.0.0.1:80"),
        ("[FD00::1]:80", None, "[fd00::1]:80"),
        ("10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:80"),
        ("", "10.0.0.2:80", "10.0.0.2:80"),
        ("", "nonsense", ""),
        ("nonsense", "10.0.0.2:80", ""),
        ("", None, ""),
    ],
)
def test_the_serving_endpoint_is_in_the_metadata_or_an_attribute(
    metadata: str, attribute: str | None, expected: str
) -> None:
    attributes = None if attribute is None else {"upstream.address": attribute}
    assert served_by(answer_headers(served=metadata, attributes=attributes)) == expected


def test_unusable_metadata_leaves_it_to_the_attribute() -> None:
    other = answer_headers(attributes={"upstream.address": "10.0.0.2:80"})
    other.metadata_context.filter_metadata[BALANCING_NAMESPACE].update({SERVED: 7})
    others = answer_headers(attributes={"upstream.address": "10.0.0.2:80"})
    others.metadata_context.filter_metadata["else"].update({SERVED: "10.0.0.1:80"})
    assert [served_by(message) for message in (other, others)] == ["10.0.0.2:80"] * 2


def test_attributes_of_another_filter_are_ignored() -> None:
    message = answer_headers()
    message.attributes["else"].update({"upstream.address": "10.0.0.2:80", "response.code_details": "upstream_reset"})
    assert (served_by(message), failure_of(message)) == ("", "")


# -- failures


@pytest.mark.parametrize(
    ("details", "is_failure"),
    [
        ("upstream_reset_before_response_started{connection_failure}", True),
        ("upstream_response_timeout", True),
        ("upstream_per_try_timeout", True),
        ("no_healthy_upstream", True),
        ("via_upstream", False),
        ("direct_response", False),
        ("cluster_not_found", False),
        ("downstream_upstream_", False),
        ("", False),
    ],
)
def test_a_failure_of_an_endpoint_is_recognized_by_envoy_s_prefixes(details: str, is_failure: bool) -> None:
    message = answer_headers(503, attributes={"response.code_details": details})
    assert failure_of(message) == (details if is_failure else "")


def test_without_attributes_there_is_no_failure() -> None:
    numeric = answer_headers()
    numeric.attributes[ATTRIBUTES].update({"response.code_details": 7})
    assert [failure_of(message) for message in (answer_headers(), numeric)] == ["", ""]
