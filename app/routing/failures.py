"""What a failed request means for its endpoint."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.domain.request import InferenceRequest


class Failures:
    """Handles each failure: logs it, takes an unreachable endpoint out, and has the endpoint checked."""

    def __init__(
        self,
        *,
        mark_down: Callable[[Endpoint, str], None],
        suspect: Callable[[Endpoint], None],
        log: Callable[[InferenceRequest, UpstreamError], None],
    ) -> None:
        """`mark_down` takes an endpoint that accepts no connection out of the pool; `suspect` has one checked."""
        self._mark_down = mark_down
        self._suspect = suspect
        self._log = log

    def __call__(self, request: InferenceRequest, endpoint: Endpoint, failure: UpstreamError) -> None:
        """`endpoint` failed `request`."""
        self._log(request, failure)
        if isinstance(failure, UnreachableError):
            self._mark_down(endpoint, failure.cause)
        self._suspect(endpoint)
