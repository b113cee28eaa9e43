"""What follows from an endpoint that failed a request."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.endpoint import Endpoint
from app.domain.errors import UnreachableError, UpstreamError
from app.domain.request import InferenceRequest


class Failures:
    """Told of each failure: has it written down, and the endpoint looked at."""

    def __init__(
        self,
        *,
        mark_down: Callable[[Endpoint, str], None],
        suspect: Callable[[Endpoint], None],
        tell: Callable[[InferenceRequest, UpstreamError], None],
    ) -> None:
        """`mark_down` keeps an endpoint that takes no connection from being picked; `suspect` has one looked at."""
        self._mark_down = mark_down
        self._suspect = suspect
        self._tell = tell

    def __call__(self, request: InferenceRequest, endpoint: Endpoint, failure: UpstreamError) -> None:
        """`endpoint` failed `request`."""
        self._tell(request, failure)
        if isinstance(failure, UnreachableError):
            self._mark_down(endpoint, failure.cause)
        self._suspect(endpoint)
