"""What can be the address of an endpoint."""

from __future__ import annotations

import pytest

from app.domain.addresses import parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("FD00::1", "fd00::1"),
        ("gpu-1.fleet.local", "gpu-1.fleet.local"),
        ("my_service", "my_service"),
        ("a.", "a."),
    ],
)
def test_an_address_is_taken_in_its_usual_form(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "http://a", "a:80", "[::1]", "10.0.0.256", "a b", "a/b", "u@h", "-a", "a-", "a..b", "x" * 64, "é"]
)
def test_what_can_be_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an IP address or a host name"):
        parse_address(text)
