"""Parsing of endpoint addresses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.addresses import LONGEST_SOCKET, parse_address, parse_address_or_socket, parse_authority
from pointsman.testing import make_endpoint


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
def test_an_address_is_normalised(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "http://a", "a:80", "[::1]", "10.0.0.256", "a b", "a/b", "u@h", "-a", "a-", "a..b", "x" * 64, "é"]
)
def test_anything_else_is_not_an_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected an IP address or a host name"):
        parse_address(text)


@pytest.mark.parametrize("text", ["unix:/run/engine.sock", "unix:/" + "x" * (LONGEST_SOCKET - 1), "10.0.0.1"])
def test_a_unix_socket_may_replace_an_address(text: str) -> None:
    assert parse_address_or_socket(text) == text


@pytest.mark.parametrize("text", ["unix:", "unix:run/s", "unix:/a\0b", "unix:/" + "é" * 54])
def test_an_invalid_socket_path_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="expected the whole path of a Unix socket"):
        parse_address_or_socket(text)


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("10.0.0.1:8000", "10.0.0.1:8000"),
        ("10.0.0.1:1", "10.0.0.1:1"),
        ("10.0.0.1:65535", "10.0.0.1:65535"),
        ("10.0.0.1:0080", "10.0.0.1:80"),
        (" 10.0.0.1:80\t", "10.0.0.1:80"),
        ("[::1]:80", "[::1]:80"),
        ("[FD00:0:0::0001]:80", "[fd00::1]:80"),
        ("[fe80::1%eth0]:80", "[fe80::1%eth0]:80"),
    ],
)
def test_an_authority_is_normalised(text: str, authority: str) -> None:
    assert parse_authority(text) == authority


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":80", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:+1"),
        *("10.0.0.1:8_0", "10.0.0.1:8.0", "10.0.0.1:http", "10.0.0.1:²", "10.0.0.1:٣", "10.0.0.1 :80", "10.0.0.1: 80"),
        *("10.0.0.256:80", "10.0.0:80", "010.0.0.1:80", "host:80", "localhost:80", "10.0.0.1:80:80", "10.0.0.1:80,"),
        *("::1", "::1:80", "[::1]", "[::1]:", "[::1]:0", "[::1:80", "::1]:80", "[]:80", "[10.0.0.1]:80", "[[::1]]:80"),
        *("http://10.0.0.1:80", "unix:/run/s", "[::1]80", "[::g]:80", "x[::1]:80", "10.0.0.1/8:80"),
    ],
)
def test_anything_else_is_not_an_authority(text: str) -> None:
    assert parse_authority(text) is None


@settings(max_examples=100, deadline=None)
@given(address=st.ip_addresses(), port=st.integers(1, 65535))
def test_the_authority_of_an_endpoint_is_normalised(address: object, port: int) -> None:
    authority = make_endpoint(address=str(address), port=port).authority
    assert parse_authority(authority) == authority
    assert parse_authority(authority.upper()) == authority


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=30) | st.text("0123456789.:[]abcdef%", max_size=30))
def test_normalising_an_authority_twice_changes_nothing(text: str) -> None:
    authority = parse_authority(text)
    assert authority is None or parse_authority(authority) == authority


@pytest.mark.parametrize("digit", ["0", "1"])
def test_a_port_with_very_many_digits_is_rejected(digit: str) -> None:
    assert parse_authority("10.0.0.1:" + digit * 5000) is None
