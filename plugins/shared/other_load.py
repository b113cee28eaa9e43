"""Requests that an engine has waiting and that other routers or clients sent, as its metrics show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plugins.shared.prefill_queues import PrefillQueues
from pointsman import Candidates, Column

MEMORY = 0.99
"""Weight of all earlier prompts in the mean length against the next one."""

ASSUMED = 1000.0
"""Tokens of a prompt, before one was sent."""

SAME = 1e-6
"""Seconds within which two scrapes are the same."""

NEVER = 1e9
"""Age in seconds of metrics that were never scraped."""


class OtherLoad:
    """Follows the metrics. Each fresh scrape is compared with what was in our own queue at its time."""

    def __init__(self) -> None:
        self._mean = ASSUMED
        self._sent = False
        self._names: tuple[str, ...] = ()
        self._read_at: Column = np.zeros(0)

    def sent(self, tokens: float) -> None:
        """A prompt of `tokens` uncached tokens was sent; those of others are assumed to be as long in the mean."""
        self._mean = self._mean * MEMORY + tokens * (1.0 - MEMORY) if self._sent else tokens
        self._sent = True

    def read(self, candidates: Candidates, queues: PrefillQueues, now: float) -> None:
        """Passes on what the scrapes since the last call show."""
        names = candidates.names
        read_at = now - np.minimum(candidates.metrics_age, NEVER)
        if names is not self._names:
            self._names, self._read_at = names, np.full(len(names), now - 2.0 * NEVER)
        fresh = np.flatnonzero(np.abs(read_at - self._read_at) > SAME).tolist()
        self._read_at = read_at
        self._compare(candidates, queues, fresh)

    def _compare(self, candidates: Candidates, queues: PrefillQueues, rows: Sequence[int]) -> None:
        metrics, names = candidates.metrics, self._names
        for row in rows:
            found = metrics[row]
            if found is not None and found.waiting is not None:
                others = queues.not_ours(names[row], found.waiting, float(self._read_at[row]))
                queues.set_others(names[row], others * self._mean)
        if not candidates.known.all():
            _assume_mean(queues, names, candidates.known.tolist())


def _assume_mean(queues: PrefillQueues, names: Sequence[str], known: Sequence[bool]) -> None:
    """Endpoints with unknown metrics are assumed to have as much of others as the known ones in the mean."""
    found = [queues.others(name) for name, is_known in zip(names, known, strict=True) if is_known]
    mean = sum(found) / len(found) if found else 0.0
    for name, is_known in zip(names, known, strict=True):
        if not is_known:
            queues.set_others(name, mean)
