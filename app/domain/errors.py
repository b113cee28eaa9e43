"""Errors that fail a request. `app.transports.errors` maps each class to a status."""

from __future__ import annotations


class RoutingError(Exception):
    """A request could not be served. Base class of the errors that transports send as error responses."""


class BadRequestError(RoutingError):
    """The request is invalid: malformed JSON, a missing field, an unknown profile."""


class BodyTooLargeError(RoutingError):
    """The body is larger than `limit` bytes, possibly only after decompression."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the request body is larger than the limit of {self.limit} bytes"


class HeadersTooLargeError(RoutingError):
    """The request line and headers, or the trailers, are larger than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the request's headers are larger than the limit of {self.limit} bytes"


class UnsupportedError(RoutingError):
    """The request needs an unsupported feature: an upgrade, CONNECT, an unknown transfer-encoding."""


class ClientTimeoutError(RoutingError):
    """The client took too long to send its request."""


class ModelNotFoundError(RoutingError):
    """The models of every endpoint are known, and none serves `model`."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model

    def __str__(self) -> str:
        return f"the model {self.model!r} does not exist: no endpoint of the pool serves it"


class NoEndpointsError(RoutingError):
    """No endpoint is up that serves the model and is in the subset requested by the proxy."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "no endpoint is available for this request"


class SaturatedError(RoutingError):
    """Endpoints are available, but the filters or a limit ruled out all of them."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "every endpoint was ruled out for this request"


class UpstreamError(RoutingError):
    """The endpoint failed before the first byte of its response, and no retry is left."""

    def __init__(self, endpoint: str, cause: str) -> None:
        super().__init__(endpoint, cause)
        self.endpoint = endpoint
        self.cause = cause

    def __str__(self) -> str:
        return f"the model server failed before it responded: {self.cause}"


class UpstreamTimeoutError(UpstreamError):
    """The response did not start within the timeout."""

    def __str__(self) -> str:
        return f"the model server did not respond in time: {self.cause}"


class UnreachableError(UpstreamError):
    """The endpoint does not accept connections."""


class ShuttingDownError(RoutingError):
    """The router is shutting down and accepts no new requests."""

    def __str__(self) -> str:
        return "the router is shutting down"


class PluginError(RoutingError):
    """A filter, picker or profile picker failed. Which one is logged, but not sent to the client."""

    def __init__(self, plugin: str, cause: Exception | str) -> None:
        super().__init__(plugin, cause)
        self.plugin = plugin
        self.cause = cause

    def __str__(self) -> str:
        what = self.cause if isinstance(self.cause, str) else f"{type(self.cause).__name__}: {self.cause}"
        return f"plugin {self.plugin!r} failed: {what}"
