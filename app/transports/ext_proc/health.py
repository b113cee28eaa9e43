"""Liveness and readiness in the gRPC health checking protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse
from grpc_health.v1.health_pb2_grpc import HealthServicer

LIVENESS = "liveness"
READINESS = ("", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor", "inference-extension")
"""Names of services that are `SERVING` when the process is ready: those that gateways and manifests ask for."""

INTERVAL = 0.2
"""Seconds between two checks of the state for `Watch`."""


class Health(HealthServicer):
    """Reports the current state."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready
        self._stopped = asyncio.Event()

    def shut_down(self) -> None:
        """Ends the streams of `Watch`."""
        self._stopped.set()

    async def Check(self, request: HealthCheckRequest, context: Any) -> HealthCheckResponse:  # noqa: N802 - gRPC's name
        """The status of a service; `NOT_FOUND` for an unknown name."""
        status = self._status(request.service)
        if status == HealthCheckResponse.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown service {request.service!r}")
        return HealthCheckResponse(status=status)

    async def List(self, request: HealthListRequest, context: Any) -> HealthListResponse:  # noqa: N802
        """The status of each service."""
        names = (LIVENESS, *READINESS)
        return HealthListResponse(statuses={name: HealthCheckResponse(status=self._status(name)) for name in names})

    async def Watch(  # noqa: N802 - gRPC's name
        self,
        request: HealthCheckRequest,
        context: Any,
    ) -> AsyncIterator[HealthCheckResponse]:
        """The status of a service now and whenever it changes."""
        last: int | None = None
        while not self._stopped.is_set():
            status = self._status(request.service)
            if status != last:
                last = status
                yield HealthCheckResponse(status=status)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), INTERVAL)

    def _status(self, service: str) -> int:
        status = HealthCheckResponse.SERVING
        if service in READINESS:
            status = HealthCheckResponse.SERVING if self._ready() else HealthCheckResponse.NOT_SERVING
        elif service != LIVENESS:
            status = HealthCheckResponse.SERVICE_UNKNOWN
        return int(status)
