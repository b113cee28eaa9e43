"""The prompts of one endpoint, and the queues of many in columns."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pointsman import Column

RECENT = 256
"""Prompts processed since the last scrape that are remembered, per endpoint."""


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt that was sent to an endpoint."""

    endpoint: str
    tokens: float
    """Uncached tokens, at least 1."""
    entered: float
    """Time it was sent, in seconds."""
    silent: bool = False
    """Whether its first token can't be seen, as with responses that are not streamed."""
    teaches: bool = True
    """Whether its uncached tokens are known well enough to learn the rate from."""
    loads: bool = False
    """Whether the endpoint has to load an adapter for it, as far as is known."""
    expected: float = 0.0
    """Seconds to its first token, as estimated when it was sent."""
    queued: bool = True


@dataclass(slots=True, eq=False)
class PromptQueue:
    """The prompts of one endpoint, oldest first."""

    slowness: float
    """The fleet's rate over the endpoint's."""
    prompts: deque[Prompt] = field(default_factory=deque)
    since: float = 0.0
    """When the first one's turn came."""
    tokens: float = 0.0
    """Of all prompts."""
    running: int = 0
    """Responses being generated."""
    others: float = 0.0
    """Tokens of requests that came from elsewhere."""
    load: float = 0.0
    """`tokens + running + others`, kept for those who read it often."""
    processed: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """When each recent prompt entered and left the queue."""

    def seconds(self, own: float, now: float, fleet: float) -> float:
        """Expected time to first token of a request with `own` uncached tokens, at a rate of `fleet`."""
        per_token = self.slowness / fleet
        rest = self.load + own
        if not self.prompts:
            return rest * per_token
        head = self.prompts[0].tokens
        return abs(head * per_token - (now - self.since)) + (rest - head) * per_token

    def ahead(self, now: float, fleet: float) -> float:
        """Tokens to be processed before a new prompt's turn comes."""
        rest = self.tokens + self.others
        if not self.prompts:
            return rest
        return rest - min((now - self.since) * fleet / self.slowness, self.prompts[0].tokens)


class QueueTable:
    """The queues of many endpoints, in columns that are brought up to date when they are read."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._positions: dict[PromptQueue, int] = {}
        self._columns = np.zeros((5, 0))
        self._changed: set[PromptQueue] = set()

    def change(self, queue: PromptQueue) -> None:
        """`queue` is no longer as it was."""
        if self._positions:
            self._changed.add(queue)

    def clear(self) -> None:
        """The endpoints have changed."""
        self._names = ()
        self._positions = {}
        self._changed = set()

    def seconds(
        self, names: tuple[str, ...], queues: Sequence[PromptQueue], own: Column, now: float, fleet: float
    ) -> Column:
        """As `PromptQueue.seconds`, for each of `names`."""
        if names is not self._names:
            self._names = names
            self._positions = {queue: position for position, queue in enumerate(queues)}
            self._columns = np.zeros((5, len(names)))
            self._changed = set(queues)
        for queue in self._changed:
            if queue in self._positions:
                self._write(queue)
        self._changed.clear()
        head, busy, since, rest, slowness = self._columns
        seconds = (since - now) * fleet
        seconds += head
        np.abs(seconds, out=seconds)
        seconds *= busy
        seconds += rest
        seconds += own * slowness
        seconds /= fleet
        return seconds

    def _write(self, queue: PromptQueue) -> None:
        head = queue.prompts[0].tokens if queue.prompts else 0.0
        rest = queue.load - head
        self._columns[:, self._positions[queue]] = (
            head * queue.slowness, bool(queue.prompts), queue.since, rest * queue.slowness, queue.slowness
        )  # fmt: skip
