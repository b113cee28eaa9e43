"""`match-profile-picker`: the profile of the first rule that the request meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, model_validator

from pointsman import (
    ACTIVE_ADAPTERS,
    WAITING_ADAPTERS,
    Decision,
    InferenceRequest,
    PluginParams,
    Pool,
    ProfileResult,
    plugin,
)

Patterns = str | Annotated[tuple[str, ...], Field(min_length=1)]


class Range(PluginParams):
    """From `min` to `max`, both included; without one there is no bound."""

    min: int = Field(default=0, ge=0)
    """The least."""
    max: int | None = Field(default=None, ge=0)
    """The most."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Range:
        if self.max is not None and self.max < self.min:
            message = f"max {self.max} is below min {self.min}"
            raise ValueError(message)
        return self

    def __contains__(self, number: int) -> bool:
        return number >= self.min and (self.max is None or number <= self.max)


class Rule(PluginParams):
    """A profile, and what a request must be like to get it. Every condition given must hold; text is matched by
    patterns with `*`, `?` and `[abc]`, one or a list of which one must fit."""

    profile: str = Field(min_length=1, examples=["long"])
    """The profile to run."""
    model: Patterns | None = None
    """The model asked for."""
    path: Patterns | None = None
    """The path, such as `/v1/chat/*`."""
    adapter: Patterns | None = None
    """The LoRA adapter asked for: named beside the model, or in its place and listed by an endpoint's metrics."""
    prompt_tokens: Range | None = None
    """Length of the prompt in tokens, of four bytes each."""
    headers: Mapping[str, Patterns] = Field(default_factory=dict)
    """Values of headers; the name's case does not matter."""

    @model_validator(mode="after")
    def _has_a_condition(self) -> Rule:
        if not self.headers and all(
            condition is None for condition in (self.model, self.path, self.adapter, self.prompt_tokens)
        ):
            raise ValueError("a rule needs a condition: model, path, adapter, promptTokens or headers")
        if len({name.lower() for name in self.headers}) < len(self.headers):
            raise ValueError("a rule names a header twice: case does not matter")
        return self


@plugin("match-profile-picker")
class MatchProfilePicker:
    """Runs the profile of the first rule that a request meets, by model, path, prompt length, header or LoRA adapter;
    without one, the default profile."""

    class Params(PluginParams):
        """The rules, in the order they are tried."""

        rules: tuple[Rule, ...] = Field(
            default=(),
            examples=[[{"profile": "long", "promptTokens": {"min": 8000}}]],
        )
        """Tried one after the other; the first that holds counts."""
        default: str | None = None
        """The profile of requests that no rule holds for; by default the first profile."""

    wants = (ACTIVE_ADAPTERS, WAITING_ADAPTERS)

    def __init__(self, params: Params, pool: Pool) -> None:
        self._rules = [(_without_case(rule), rule.profile) for rule in params.rules]
        self._default = params.default
        self._pool = pool

    @classmethod
    def profile_names(cls, params: Params) -> tuple[str, ...]:
        """Profiles that must exist."""
        named = [rule.profile for rule in params.rules]
        return tuple(dict.fromkeys([*named, params.default] if params.default else named))

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """The profile, once."""
        if finished:
            return ()
        matching = (profile for rule, profile in self._rules if self._holds(rule, request))
        return (next(matching, self._default or profiles[0]),)

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:  # noqa: ARG002
        """The one profile that ran is the decision."""
        (primary,) = finished
        return Decision(primary, finished)

    def _holds(self, rule: Rule, request: InferenceRequest) -> bool:
        return (
            _fits(rule.model, request.model)
            and _fits(rule.path, request.path)
            and (rule.prompt_tokens is None or request.prompt_tokens in rule.prompt_tokens)
            and all(_fits(wanted, request.headers.get(name)) for name, wanted in rule.headers.items())
            and (rule.adapter is None or _fits(rule.adapter, self._adapter_of(request)))
        )

    def _adapter_of(self, request: InferenceRequest) -> str | None:
        if request.adapter:
            return request.adapter
        readings = (metrics for metrics in self._pool.candidates().metrics if metrics is not None)
        known = any(request.model in metrics.running_adapters | metrics.waiting_adapters for metrics in readings)
        return request.model if known else None


def _without_case(rule: Rule) -> Rule:
    return rule.model_copy(update={"headers": {name.lower(): wanted for name, wanted in rule.headers.items()}})


def _fits(patterns: Patterns | None, text: str | None) -> bool:
    if patterns is None:
        return True
    if text is None:
        return False
    return any(fnmatchcase(text, pattern) for pattern in ((patterns,) if isinstance(patterns, str) else patterns))
