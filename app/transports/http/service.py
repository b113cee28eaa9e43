"""What one configuration serves over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.transports.http.incoming import IncomingRequest
from app.transports.http.limits import ClientTimeouts, HttpLimits
from app.transports.http.response_writer import ResponseWriter

Serve = Callable[[IncomingRequest, ResponseWriter], Awaitable[None]]
"""Responds to one request. A `ConnectionError` from it ends the connection."""


@dataclass(frozen=True, slots=True)
class HttpService:
    """The handlers, and the bounds on clients."""

    handler: Serve
    models: Serve
    """Serves the model list."""
    limits: HttpLimits
    timeouts: ClientTimeouts

    def serve(self, incoming: IncomingRequest, writer: ResponseWriter) -> Awaitable[None]:
        """Responds to one request."""
        head = incoming.head
        if head is not None and head.method == "GET" and incoming.error is None and _is_model_list(head.target):
            return self.models(incoming, writer)
        return self.handler(incoming, writer)


def _is_model_list(target: str) -> bool:
    return target.partition("?")[0] == "/v1/models"
