"""What plugins show of their state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class InspectsEndpoints(Protocol):
    """Optional for any plugin: shows what it knows about each endpoint at `/debug/endpoints`."""

    def inspect(self, endpoint: str, /) -> Mapping[str, object]:
        """What is known of the endpoint of that name, as values for JSON. Empty if there is nothing."""
