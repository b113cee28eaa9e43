"""What an answer cost, as the engine counted it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request and of its answer; None is what the engine did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """Those of the prompt that were in the engine's prefix cache."""

    def updated(self, later: Usage) -> Usage:
        """These with what `later` says in their place."""
        return Usage(
            self.prompt_tokens if later.prompt_tokens is None else later.prompt_tokens,
            self.completion_tokens if later.completion_tokens is None else later.completion_tokens,
            self.cached_tokens if later.cached_tokens is None else later.cached_tokens,
        )
