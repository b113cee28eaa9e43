"""What an endpoint said about its own load at one moment."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class EndpointMetrics:
    """One reading of an endpoint's metrics page. A field is None when the page does not have it."""

    waiting: float | None = None
    """Requests queued in the engine, summed over its ranks."""
    running: float | None = None
    """Requests in the engine's batch, summed over its ranks."""
    kv_cache_usage: float | None = None
    """Share of the KV cache in use, 0 to 1, mean over the engine's ranks."""
    engine: str = ""
    block_size: int | None = None
    """Tokens per KV-cache block."""
    num_blocks: int | None = None
    """KV-cache blocks, summed over the engine's ranks."""
    running_adapters: frozenset[str] = frozenset()
    waiting_adapters: frozenset[str] = frozenset()
    max_adapters: int = 0
    """LoRA adapters that fit in one batch; 0 when not reported."""

    def updated_by(self, other: EndpointMetrics) -> EndpointMetrics:
        """This reading with what `other` has; what it lacks stays."""
        unset = EndpointMetrics()
        names = [name for name in self.__slots__ if getattr(other, name) != getattr(unset, name)]
        return replace(self, **{name: getattr(other, name) for name in names})
