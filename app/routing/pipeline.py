"""The plugins of one configuration, in the order a request meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.extension.requests import OnFinished, OnFirstByte, OnRefused, OnScheduled, Producer
from app.parsing.parsers import Parsers
from app.scheduling.profile import Named
from app.scheduling.scheduler import Scheduler


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
