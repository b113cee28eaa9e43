"""The endpoint picker behind the lean server instead of gRPC: what a leaner gRPC server would give.

    python -m extproc.pointsman_lean serve -c FILE...

Only how messages come and go is another; health and aborting are missing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

import grpc.aio
from extproc import lean

from app.__main__ import main
from app.transports.ext_proc.server import ExtProcServer
from app.transports.listening import Address, Opened


class Context:
    """A stream as the processor takes it."""

    __slots__ = ("_stream",)

    def __init__(self, stream: lean.Stream) -> None:
        self._stream = stream

    async def read(self) -> Any:
        """The next message."""
        message = await self._stream.read()
        return grpc.aio.EOF if message is None else message

    async def write(self, message: Any) -> None:
        """Sends one."""
        self._stream._connection.send(self._stream, message.SerializeToString())  # noqa: SLF001


async def open_lean(self: ExtProcServer, address: Address) -> Opened:
    """In the place of `ExtProcServer._open`."""
    loop = asyncio.get_running_loop()
    running: set[asyncio.Task[None]] = set()

    async def hold(stream: lean.Stream) -> None:
        await self.processor.Process(None, Context(stream))
        stream._connection.finish(stream)  # noqa: SLF001

    def begin(stream: lean.Stream) -> Any:
        task = loop.create_task(hold(stream))
        running.add(task)
        task.add_done_callback(running.discard)
        return stream.put

    server = await loop.create_unix_server(lambda: lean.Connection(begin), address.socket)

    async def close() -> None:
        server.close()

    return Opened(0, close)


if __name__ == "__main__":
    ExtProcServer._open = open_lean  # noqa: SLF001
    sys.exit(main())
