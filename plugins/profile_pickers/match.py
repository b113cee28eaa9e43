"""`match-profile-picker`: runs the profile of the first rule that matches the request."""

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
    """A range with inclusive bounds, each of them optional."""

    min: int = Field(default=0, ge=0)
    """The lower bound."""
    max: int | None = Field(default=None, ge=0)
    """The upper bound."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Range:
        if self.max is not None and self.max < self.min:
            message = f"max {self.max} is below min {self.min}"
            raise ValueError(message)
        return self

    def __contains__(self, number: int) -> bool:
        return number >= self.min and (self.max is None or number <= self.max)


class Rule(PluginParams):
    """A profile and the conditions for it, all of which must match. Text is matched with shell-style patterns (`*`,
    `?`, `[abc]`); of a list of patterns, one must match."""

    profile: str = Field(min_length=1, examples=["long"])
    """The profile to run."""
    model: Patterns | None = None
    """Patterns for the requested model."""
    path: Patterns | None = None
    """Patterns for the request path, such as `/v1/chat/*`."""
    adapter: Patterns | None = None
    """Patterns for the requested LoRA adapter. The requested model counts as an adapter if an endpoint reports an
    adapter of that name."""
    prompt_tokens: Range | None = None
    """The length of the prompt in tokens, estimated as four bytes per token."""
    headers: Mapping[str, Patterns] = Field(default_factory=dict)
    """Patterns for header values, by header name. Names are case-insensitive."""

    @model_validator(mode="after")
    def _has_a_condition(self) -> Rule:
        if not self.headers and all(
            condition is None for condition in (self.model, self.path, self.adapter, self.prompt_tokens)
        ):
            raise ValueError("a rule needs a condition: model, path, adapter, promptTokens or headers")
        if len({name.lower() for name in self.headers}) < len(self.headers):
            raise ValueError("a rule has the same header twice; header names are case-insensitive")
        return self


@plugin("match-profile-picker")
class MatchProfilePicker:
    """Runs the profile of the first rule that matches the request: by model, path, LoRA adapter, prompt length or
    headers. If no rule matches, runs the default profile."""

    class Params(PluginParams):
        """The rules and the default profile."""

        rules: tuple[Rule, ...] = Field(
            default=(),
            examples=[[{"profile": "long", "promptTokens": {"min": 8000}}]],
        )
        """The rules, in order; the first that matches is used."""
        default: str | None = None
        """The profile for requests that no rule matches. By default the first profile."""

    wants = (ACTIVE_ADAPTERS, WAITING_ADAPTERS)

    def __init__(self, params: Params, pool: Pool) -> None:
        self._rules = [(_with_lower_case_headers(rule), rule.profile) for rule in params.rules]
        self._default = params.default
        self._pool = pool

    @classmethod
    def profile_names(cls, params: Params) -> tuple[str, ...]:
        """The profiles of the rules, and the default profile if one is set."""
        named = [rule.profile for rule in params.rules]
        return tuple(dict.fromkeys([*named, params.default] if params.default else named))

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Sequence[str]:
        """The profile of the first rule that matches, once."""
        if finished:
            return ()
        matching = (profile for rule, profile in self._rules if self._matches(rule, request))
        return (next(matching, self._default or profiles[0]),)

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Decision:
        """The result of the profile that ran."""
        (primary,) = finished
        return Decision(primary, finished)

    def _matches(self, rule: Rule, request: InferenceRequest) -> bool:
        return (
            _match(rule.model, request.model)
            and _match(rule.path, request.path)
            and (rule.prompt_tokens is None or request.prompt_tokens in rule.prompt_tokens)
            and all(_match(patterns, request.headers.get(name)) for name, patterns in rule.headers.items())
            and (rule.adapter is None or _match(rule.adapter, self._adapter_of(request)))
        )

    def _adapter_of(self, request: InferenceRequest) -> str | None:
        if request.adapter:
            return request.adapter
        for metrics in self._pool.candidates().metrics:
            if metrics is not None and request.model in metrics.running_adapters | metrics.waiting_adapters:
                return request.model
        return None


def _with_lower_case_headers(rule: Rule) -> Rule:
    return rule.model_copy(update={"headers": {name.lower(): patterns for name, patterns in rule.headers.items()}})


def _match(patterns: Patterns | None, text: str | None) -> bool:
    if patterns is None:
        return True
    if text is None:
        return False
    return any(fnmatchcase(text, pattern) for pattern in ((patterns,) if isinstance(patterns, str) else patterns))
