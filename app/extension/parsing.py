"""The extension point that parses requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from app.domain.request import InferenceRequest, RawRequest


@runtime_checkable
class Parser(Protocol):
    """Parses the requests of one API. Synchronous and pure."""

    paths: Sequence[str]
    """Suffixes of the paths that it parses, in whole segments, such as `chat/completions`. Empty for every path that
    no other parser claims. A class attribute."""

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The parsed request, made by `raw.parsed(…)`. Raises `BadRequestError` when the body is invalid."""
