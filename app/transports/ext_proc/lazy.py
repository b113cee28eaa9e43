"""The gRPC server of the process, imported with its first use: gRPC takes half a second to load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.transports.listening import OwnPorts


class ExtProc:
    """An `ExtProcServer` if some configuration needs one."""

    def __init__(self, *, service: Callable[[], Any], ready: Callable[[], bool], own_ports: OwnPorts) -> None:
        """As for `ExtProcServer`."""
        self._service = service
        self._ready = ready
        self._own_ports = own_ports
        self._server: Any = None

    @property
    def server(self) -> Any:
        """The server, made when it is first asked for."""
        if self._server is None:
            from app.transports.ext_proc.server import ExtProcServer  # noqa: PLC0415 - loaded only if it is used

            self._server = ExtProcServer(service=self._service, ready=self._ready, own_ports=self._own_ports)
        return self._server

    def listeners(self, service: Any) -> tuple[Any, ...]:
        """What opens the ports of `service`, and closes those of a previous one; nothing if neither exists."""
        if service is None and self._server is None:
            return ()
        from app.transports.ext_proc.server import ExtProcListener  # noqa: PLC0415 - loaded only if it is used

        return (ExtProcListener(self.server, service),)

    async def stop(self, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
        """Lets open streams finish for `timeout` seconds."""
        if self._server is not None:
            await self._server.stop(timeout)
