"""The load that an endpoint reports."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class EndpointMetrics:
    """The metrics of one scrape. A field is None if the endpoint doesn't report it."""

    waiting: float | None = None
    """Requests waiting in the queue of the engine, summed over its ranks."""
    running: float | None = None
    """Requests in the batch of the engine, summed over its ranks."""
    kv_cache_usage: float | None = None
    """Share of the KV cache in use, 0 to 1, averaged over the ranks of the engine."""
    engine: str = ""
    block_size: int | None = None
    """Tokens per KV-cache block."""
    num_blocks: int | None = None
    """KV-cache blocks, summed over the ranks of the engine."""
    running_adapters: frozenset[str] = frozenset()
    waiting_adapters: frozenset[str] = frozenset()
    max_adapters: int = 0
    """Maximum number of LoRA adapters in a batch; 0 if not reported."""

    def updated_by(self, other: EndpointMetrics) -> EndpointMetrics:
        """These metrics, updated with the fields that `other` reports."""
        unset = EndpointMetrics()
        names = [name for name in self.__slots__ if getattr(other, name) != getattr(unset, name)]
        return replace(self, **{name: getattr(other, name) for name in names})
