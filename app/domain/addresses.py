"""What can be the address of an endpoint."""

from __future__ import annotations

import ipaddress
import re

_LABEL = r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?", re.IGNORECASE)


def parse_address(text: str) -> str:
    """An IP address in its usual form, or a host name. Raises `ValueError` for anything else, a URL for instance."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        if not _HOST_NAME.fullmatch(text) or text.rpartition(".")[2].isdigit():
            raise ValueError("expected an IP address or a host name, without scheme and port") from None
        return text
