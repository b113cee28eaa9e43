"""The access log: one line per request, with the endpoint that was picked."""

from __future__ import annotations

import structlog

from app.domain.decision import Decision
from app.domain.errors import RoutingError
from app.domain.outcome import Outcome
from app.domain.request import InferenceRequest
from app.domain.usage import Usage
from app.extension.facts import PrefixShape

_UNKNOWN = Usage()


class AccessLog:
    """Logs each request when it ends."""

    def __init__(self, *, prefixes: bool = False) -> None:
        """`prefixes`: whether lines have hashes of the prompt's beginning."""
        self._prefixes = prefixes
        self._log = structlog.get_logger("pointsman.access")

    def on_finished(self, request: InferenceRequest, decision: Decision, outcome: Outcome) -> None:
        """Logs a request that ended with this attempt. An attempt that was followed by another is not logged."""
        if not outcome.final:
            return
        usage = outcome.usage or _UNKNOWN
        self._log.info(
            "request",
            id=request.id,
            path=request.path,
            model=request.model,
            endpoint=decision.endpoint.name,
            profile=decision.primary,
            status=outcome.status,
            ending=str(outcome.ending),
            attempts=outcome.attempts,
            streaming=request.streaming,
            head_ms=_milliseconds(outcome.head),
            ttft_ms=_milliseconds(outcome.first_token),
            **({} if outcome.first_token_exact else {"ttft_from": "head"}),
            tpot_ms=_milliseconds(outcome.time_per_output_token),
            duration_ms=_milliseconds(outcome.duration),
            bytes=outcome.response_bytes,
            prompt_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            estimated_prompt_tokens=request.prompt_tokens,
            **({"prefix": _prefix_of(request)} if self._prefixes else {}),
        )

    def on_refused(self, request: InferenceRequest, error: RoutingError) -> None:
        """Logs a request that the router refused, with the reason."""
        self._log.warning(
            "request refused",
            id=request.id,
            path=request.path,
            model=request.model,
            error=type(error).__name__,
            reason=str(error),
        )


def _prefix_of(request: InferenceRequest) -> list[tuple[int, str]]:
    """Tokens and hash of each part of the first prompt that is known by a hash, from its beginning."""
    shape = next((fact for fact in request.facts.values() if isinstance(fact, PrefixShape)), None)
    if shape is None or not shape.chains:
        return []
    chain = shape.chains[0]
    ends = shape.ends or range(1, len(chain) + 1)
    starts = (0, *ends)
    return [
        ((end - start) * shape.block_tokens, f"{part:x}") for part, start, end in zip(chain, starts, ends, strict=False)
    ]


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
