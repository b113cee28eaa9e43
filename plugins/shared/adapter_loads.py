"""Which endpoints have a LoRA adapter loaded, and how long loading one takes, as learnt."""

from __future__ import annotations

from collections.abc import Mapping

from pointsman import Candidates

MEMORY = 0.9
"""Weight of all earlier loads against the next one."""

ASSUMED = 0.1
"""Seconds, before anything is learnt."""


class AdapterLoads:
    """Knows adapters from the engines' metrics. A model that no engine lists as an adapter is none."""

    def __init__(self) -> None:
        self.seconds = ASSUMED
        """Time that a load adds to the first token."""
        self._holders: Mapping[str, frozenset[str]] = {}

    def read(self, candidates: Candidates) -> None:
        """Takes the adapters from fresh metrics."""
        holders: dict[str, set[str]] = {}
        for name, metrics in zip(candidates.names, candidates.metrics, strict=True):
            if metrics is not None:
                for adapter in metrics.running_adapters | metrics.waiting_adapters:
                    holders.setdefault(adapter, set()).add(name)
        self._holders = {adapter: frozenset(names) for adapter, names in holders.items()}

    def holders(self, adapter: str) -> frozenset[str] | None:
        """The endpoints that have an adapter; None if it is no adapter, as far as is known."""
        return self._holders.get(adapter)

    def learn(self, seconds: float) -> None:
        """A load took `seconds`."""
        self.seconds = self.seconds * MEMORY + max(seconds, 0.0) * (1.0 - MEMORY)
