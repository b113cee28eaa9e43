"""How fast each endpoint processes prompts, learnt from how long prompts took."""

from __future__ import annotations

import math

STEP = 1.3
"""Speeds are rounded to powers of this, relative to the fleet's: equal hardware must not differ by noise."""

MEMORY = 0.98
"""Weight of all earlier prompts against the next one, so that the last fifty count."""

OUTLIER = 4.0
"""A prompt counts as at most so many times faster or slower than expected."""

FEWEST_TOKENS = 256
"""Shorter prompts teach nothing: their time is that of an iteration, whatever their length."""


class _Sums:
    """Tokens, and the seconds they took."""

    __slots__ = ("seconds", "tokens")

    def __init__(self, rate: float) -> None:
        """One second at `rate`, as a weak prior."""
        self.tokens = rate
        self.seconds = 1.0

    def add(self, tokens: float, seconds: float) -> None:
        self.tokens = self.tokens * MEMORY + tokens
        self.seconds = self.seconds * MEMORY + seconds

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


class PrefillRates:
    """Prompt tokens per second, per endpoint and for the fleet."""

    def __init__(self, prior: float) -> None:
        """`prior` is the rate assumed before anything is learnt."""
        self._sums: dict[str, _Sums] = {}
        self._tokens = self._seconds = 0.0
        self.fleet = prior
        """The mean rate of the endpoints whose rates are known, `prior` if none is."""

    @property
    def learnt(self) -> bool:
        """Whether any rate is known."""
        return bool(self._sums)

    def learn(self, name: str, tokens: float, seconds: float) -> None:
        """A prompt of `tokens` uncached tokens took `seconds`."""
        if tokens < FEWEST_TOKENS:
            return
        sums = self._sums.get(name)
        if sums is None:
            sums = self._sums[name] = _Sums(self.fleet)
        else:
            self._tokens -= sums.tokens
            self._seconds -= sums.seconds
        expected = tokens / sums.rate
        sums.add(tokens, min(max(seconds, expected / OUTLIER), expected * OUTLIER))
        self._tokens += sums.tokens
        self._seconds += sums.seconds
        self.fleet = self._tokens / self._seconds

    def slowness(self, name: str) -> float:
        """The fleet's rate over that of the endpoint, rounded to a power of `STEP`; 1 if nothing is known of it."""
        sums = self._sums.get(name)
        if sums is None:
            return 1.0
        steps: float = STEP ** round(math.log(self.fleet / sums.rate, STEP))
        return steps

    def of(self, name: str) -> float:
        """The rate of the endpoint in tokens per second, not rounded."""
        sums = self._sums.get(name)
        return self.fleet if sums is None else sums.rate

    def forget(self, name: str) -> None:
        """The endpoint is gone."""
        if self._sums.pop(name, None) is None:
            return
        self._tokens = sum([one.tokens for one in self._sums.values()])
        self._seconds = sum([one.seconds for one in self._sums.values()])
        if self._sums:
            self.fleet = self._tokens / self._seconds
