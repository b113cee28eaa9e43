"""Why a request was not routed: one class per kind; `app.transports.errors` maps each to a status."""

from __future__ import annotations


class RoutingError(Exception):
    """A request could not be served. The base of every error that a transport answers with."""


class BadRequestError(RoutingError):
    """The request can't be understood: bad JSON, a missing field, an unknown profile."""


class BodyTooLargeError(RoutingError):
    """The body, or what it inflates to, is over the limit (`limit` in bytes)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the request body is larger than the limit of {self.limit} bytes"


class HeadersTooLargeError(RoutingError):
    """The request line and headers, or the trailers, are over the limit (`limit` in bytes)."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the request's headers are larger than the limit of {self.limit} bytes"


class UnsupportedError(RoutingError):
    """The request asks for what is not served here: an upgrade, CONNECT, another transfer-encoding."""


class ClientTimeoutError(RoutingError):
    """The client took too long to send its request."""


class ModelNotFoundError(RoutingError):
    """Every endpoint's model list is known, and none has `model`."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model

    def __str__(self) -> str:
        return f"the model {self.model!r} does not exist: no endpoint of the pool serves it"


class NoEndpointsError(RoutingError):
    """No endpoint of the pool is up, or none that serves the model, or none of those that a proxy asks for."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "no endpoint is available for this request"


class SaturatedError(RoutingError):
    """Endpoints exist, but the filters or a limit left none for this request."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "every endpoint was ruled out for this request"


class UpstreamError(RoutingError):
    """The endpoint failed before the first byte of its answer, and no attempt is left."""

    def __init__(self, endpoint: str, cause: str) -> None:
        super().__init__(endpoint, cause)
        self.endpoint = endpoint
        self.cause = cause

    def __str__(self) -> str:
        return f"the model server failed before it answered: {self.cause}"


class UpstreamTimeoutError(UpstreamError):
    """The endpoint did not begin its answer in time."""

    def __str__(self) -> str:
        return f"the model server did not answer in time: {self.cause}"


class UnreachableError(UpstreamError):
    """Nothing answers at the endpoint's address."""


class ShuttingDownError(RoutingError):
    """The router is stopping and takes no new request."""

    def __str__(self) -> str:
        return "the router is shutting down"


class PluginError(RoutingError):
    """A filter, picker or profile picker raised. The client is not told which; the log is."""

    def __init__(self, plugin: str, cause: Exception | str) -> None:
        super().__init__(plugin, cause)
        self.plugin = plugin
        self.cause = cause

    def __str__(self) -> str:
        what = self.cause if isinstance(self.cause, str) else f"{type(self.cause).__name__}: {self.cause}"
        return f"plugin {self.plugin!r} failed: {what}"
