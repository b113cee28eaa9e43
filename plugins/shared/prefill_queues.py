"""The prompts that each endpoint has yet to process, and the time that takes.

Engines process prompts in the order of arrival. So an endpoint's queue is known from what was sent there and has had no
first token. For a request with `own` uncached tokens the expected time to first token is

    |head / rate - age| + (behind + running + others + own) / rate

where `head` are the uncached tokens of the prompt being processed and `age` the seconds since it began, `behind` those
of the prompts behind it, `running` the number of responses being generated (each takes a token of the iteration that a
prompt shares with them), and `others` the tokens that clients of other routers have waiting. A head that is overdue by
some time is expected to take as long again: hence the absolute value.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

import numpy as np

from plugins.shared.prefill_rates import PrefillRates
from plugins.shared.prompt_queue import Prompt, PromptQueue, QueueTable
from pointsman import Column

FEW = 32
"""Up to this many endpoints, plain Python is faster than numpy."""

MOVED = 0.1
"""Change of the fleet's rate, as a share, after which the speed of every endpoint is computed anew."""


class PrefillQueues:
    """A queue per endpoint. Times are in seconds on one clock."""

    def __init__(self, rates: PrefillRates) -> None:
        self.rates = rates
        self._queues: dict[str, PromptQueue] = {}
        self._table = QueueTable()
        self._names: tuple[str, ...] = ()
        self._of_names: Sequence[PromptQueue] = ()
        self._due: list[tuple[float, int, Prompt]] = []
        self._order = 0
        self._fleet = rates.fleet

    # -- what happens

    def enter(self, prompt: Prompt) -> float:
        """A prompt was sent. Returns the seconds to its first token that were expected just before."""
        if self._due:
            self._settle(prompt.entered)
        queue = self._queues.get(prompt.endpoint) or self._of(prompt.endpoint)
        expected = queue.seconds(prompt.tokens, prompt.entered, self.rates.fleet)
        queue.prompts.append(prompt)
        queue.tokens += prompt.tokens
        if len(queue.prompts) == 1:
            self._begin(queue, prompt.entered)
        self._changed(queue)
        return expected

    def first_token(self, prompt: Prompt, now: float, *, seen: bool) -> None:
        """The response began. Unless the first token was `seen`, the prompt stays queued for the expected time."""
        queue = self._of(prompt.endpoint)
        if not seen:
            prompt.silent = True
            if queue.prompts and queue.prompts[0] is prompt:
                self._schedule(queue, prompt)
            return
        if not prompt.queued:
            return
        if queue.prompts[0] is prompt:
            self._learn(prompt, now - queue.since)
        while queue.prompts[0] is not prompt and queue.prompts[0].silent:  # processed before it, unseen
            self._to_batch(queue, queue.prompts[0], now)
        self._to_batch(queue, prompt, now)

    def leave(self, prompt: Prompt, now: float) -> None:
        """The request ended, with or without a response."""
        queue = self._of(prompt.endpoint)
        if prompt.queued:
            self._remove(queue, prompt, now)
        else:
            queue.running -= 1
            self._changed(queue)

    def not_ours(self, name: str, waiting: float, at: float) -> float:
        """How many of the `waiting` requests that the engine reports for the time `at` came from elsewhere."""
        queue = self._of(name)
        ours = sum([prompt.entered <= at for prompt in queue.prompts])
        while queue.processed and queue.processed[0][1] <= at:
            queue.processed.popleft()
        ours += sum([entered <= at for entered, _ in queue.processed])
        return max(waiting - ours, 0.0)

    def set_others(self, name: str, tokens: float) -> None:
        """Requests from elsewhere have `tokens` tokens in the engine's queue."""
        queue = self._of(name)
        queue.others = tokens
        self._changed(queue)

    def others(self, name: str) -> float:
        """What `set_others` set, 0 at first."""
        return self._of(name).others

    def keep_only(self, names: Collection[str]) -> None:
        """Forgets the endpoints that are not in `names` and have no request left."""
        for name in [name for name in self._queues if name not in names]:
            queue = self._queues[name]
            if not queue.prompts and not queue.running:
                del self._queues[name]
                self.rates.forget(name)
        self._names = ()
        self._table.clear()

    # -- what is expected

    def expected(self, names: tuple[str, ...], own: Column | Sequence[float], now: float) -> Column:
        """Seconds to the first token of a request, for each of `names`. `own` are its uncached tokens at each."""
        if self._due:
            self._settle(now)
        if names is not self._names:
            self._names = names
            self._of_names = [self._of(name) for name in names]
        queues, fleet = self._of_names, self.rates.fleet
        if len(names) > FEW:
            return self._table.seconds(names, queues, np.asarray(own), now, fleet)
        inverse = 1.0 / fleet
        return np.array(
            [
                queue.seconds(tokens, now, fleet) if queue.prompts else (queue.load + tokens) * queue.slowness * inverse
                for queue, tokens in zip(queues, own, strict=True)
            ]
        )

    def expected_at(self, name: str, own: float, now: float) -> float:
        """As `expected`, for one endpoint."""
        self._settle(now)
        return self._of(name).seconds(own, now, self.rates.fleet)

    def ahead(self, name: str, now: float) -> float:
        """Tokens that the endpoint has yet to process before a new prompt's turn comes."""
        self._settle(now)
        return self._of(name).ahead(now, self.rates.fleet)

    def prompts(self, name: str) -> Sequence[Prompt]:
        """The prompts queued at an endpoint, oldest first."""
        queue = self._queues.get(name)
        return () if queue is None else tuple(queue.prompts)

    # -- inside

    def _of(self, name: str) -> PromptQueue:
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = PromptQueue(self.rates.slowness(name))
        return queue

    def _changed(self, queue: PromptQueue) -> None:
        queue.load = queue.tokens + queue.running + queue.others
        self._table.change(queue)

    def _begin(self, queue: PromptQueue, now: float) -> None:
        """The first prompt's turn comes."""
        queue.since = now
        if queue.prompts and queue.prompts[0].silent:
            self._schedule(queue, queue.prompts[0])

    def _schedule(self, queue: PromptQueue, prompt: Prompt) -> None:
        self._order += 1
        due = queue.since + prompt.tokens * queue.slowness / self.rates.fleet
        heapq.heappush(self._due, (due, self._order, prompt))

    def _settle(self, now: float) -> None:
        """Takes the prompts out whose first token can't be seen and whose time has passed."""
        while self._due and self._due[0][0] <= now:
            due, _, prompt = heapq.heappop(self._due)
            queue = self._queues.get(prompt.endpoint)
            if queue is not None and queue.prompts and queue.prompts[0] is prompt:
                self._to_batch(queue, prompt, due)

    def _learn(self, prompt: Prompt, seconds: float) -> None:
        if not prompt.teaches or prompt.silent:
            return
        self.rates.learn(prompt.endpoint, prompt.tokens, seconds)
        self._of(prompt.endpoint).slowness = self.rates.slowness(prompt.endpoint)
        if abs(self.rates.fleet / self._fleet - 1.0) > MOVED:  # the endpoints' speeds are relative to it
            self._fleet = self.rates.fleet
            for name, queue in self._queues.items():
                queue.slowness = self.rates.slowness(name)
                self._changed(queue)

    def _to_batch(self, queue: PromptQueue, prompt: Prompt, now: float) -> None:
        queue.running += 1
        self._remove(queue, prompt, now)

    def _remove(self, queue: PromptQueue, prompt: Prompt, now: float) -> None:
        prompt.queued = False
        first = queue.prompts[0] is prompt
        if first:
            queue.prompts.popleft()
        else:
            queue.prompts.remove(prompt)
        queue.tokens = queue.tokens - prompt.tokens if queue.prompts else 0.0
        queue.processed.append((prompt.entered, now))
        if first:
            self._begin(queue, now)
        self._changed(queue)
