"""Checks whether an endpoint accepts connections."""

from __future__ import annotations

import asyncio
import errno

from app.domain.endpoint import Endpoint

OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
"""Errors of this machine, which say nothing about the endpoint."""


def is_ours(error: OSError) -> bool:
    """Whether a connection failed because this machine ran out of file descriptors, ports or memory."""
    return error.errno in OURS


async def connect(endpoint: Endpoint, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
    """Opens a connection and closes it. Raises `OSError` if that fails or takes longer than `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            if endpoint.socket:
                _, writer = await asyncio.open_unix_connection(endpoint.socket)
            else:
                _, writer = await asyncio.open_connection(endpoint.address, endpoint.port)
    except UnicodeError as error:
        raise OSError(f"{endpoint.address} can't be a host name") from error
    writer.close()
