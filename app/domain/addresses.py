"""Parsing of endpoint addresses."""

from __future__ import annotations

import ipaddress
import re

HIGHEST_PORT = 65535

LONGEST_SOCKET = 107
"""Maximum length in bytes of the path of a Unix socket, a limit of the kernel."""

_PORT = re.compile(r"[0-9]{1,5}")
_LABEL = r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?", re.IGNORECASE)


UNIX = "unix:"
"""Prefix of the address of a Unix socket, before its path."""


def parse_address_or_socket(text: str) -> str:
    """Accepts an address, or a Unix socket such as `unix:/run/engine.sock`. Raises `ValueError` for anything else."""
    if not text.startswith(UNIX):
        return parse_address(text)
    path = text.removeprefix(UNIX)
    if not path.startswith("/") or "\0" in path or len(path.encode()) > LONGEST_SOCKET:
        raise ValueError(f"expected the whole path of a Unix socket, of at most {LONGEST_SOCKET} bytes, after unix:")
    return text


def parse_address(text: str) -> str:
    """Normalises an IP address; a host name is unchanged. Raises `ValueError` for anything else, such as a URL."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        if not _HOST_NAME.fullmatch(text) or text.rpartition(".")[2].isdigit():
            raise ValueError("expected an IP address or a host name, without scheme and port") from None
        return text


def parse_authority(text: str) -> str | None:
    """Normalises `ip:port` to the form of `Endpoint.authority`, with IPv6 in brackets. None for anything else."""
    host, _, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= HIGHEST_PORT or (":" in host) != bracketed:
        return None
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        return None
    return f"[{address}]:{int(port)}" if bracketed else f"{address}:{int(port)}"
