"""The extension point that makes requests of what came over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from app.domain.request import InferenceRequest, RawRequest


@runtime_checkable
class Parser(Protocol):
    """Reads the requests of one API. Synchronous and pure."""

    paths: Sequence[str]
    """Ends of the paths that it reads, by whole segments, such as `chat/completions`; empty for all that nobody else
    claims. A class attribute."""

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request, made by `raw.parsed(…)`. Raises `BadRequestError` when the body can't be understood."""
