"""The plugins of one configuration, in the order a request meets them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.extension.requests import OnFinished, OnFirstByte, OnRefused, OnScheduled, Producer
from app.parsing.parsers import Parsers
from app.scheduling.profile import Named
from app.scheduling.scheduler import Scheduler


class OpenRoutes:
    """The requests that are under way with one pipeline."""

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
    """What the router runs. A request keeps the pipeline it began with."""

    scheduler: Scheduler
    parsers: Parsers = field(default_factory=lambda: Parsers(()))
    producers: Sequence[Named[Producer]] = ()
    """In dependency order."""
    on_scheduled: Sequence[Named[OnScheduled]] = ()
    on_first_byte: Sequence[Named[OnFirstByte]] = ()
    on_finished: Sequence[Named[OnFinished]] = ()
    on_refused: Sequence[Named[OnRefused]] = ()
    open: OpenRoutes = field(default_factory=OpenRoutes)
    """Plugins that a later configuration drops are stopped when these have ended."""
