"""Sees whether anything answers at an endpoint's address."""

from __future__ import annotations

import asyncio

from app.domain.endpoint import Endpoint


async def connect(endpoint: Endpoint, timeout: float) -> None:  # noqa: ASYNC109 - a bound, not a cancel scope
    """Opens a connection and closes it. Raises `OSError` when there is none within `timeout` seconds."""
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(endpoint.address, endpoint.port)
    except UnicodeError as error:
        raise OSError(f"{endpoint.address} can't be a host name") from error
    writer.close()
