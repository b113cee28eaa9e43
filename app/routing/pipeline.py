"""The plugins of one configuration, in the order a request meets them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain.named import Named
from app.extension.requests import Producer
from app.routing.observers import Observers
from app.scheduling.scheduler import Scheduler


class OpenRoutes:
    """Counts the requests that run on one pipeline."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[asyncio.Event] = []

    def enter(self) -> None:
        """One more. Whoever calls this calls `leave` once."""
        self._count += 1

    def leave(self) -> None:
        """One less."""
        self._count -= 1
        if not self._count:
            for ended in self._waiting:
                ended.set()

    async def ended(self) -> None:
        """Returns when there is none."""
        while self._count:
            ended = asyncio.Event()
            self._waiting.append(ended)
            await ended.wait()
            self._waiting.remove(ended)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What the router runs."""

    scheduler: Scheduler
    observers: Observers
    producers: Sequence[Named[Producer]] = ()
    """In dependency order."""
    open: OpenRoutes = field(default_factory=OpenRoutes)
    """The plugins are stopped when these have ended."""
