"""`label-selector-filter`: keeps endpoints by a Kubernetes label selector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, model_validator

from pointsman import Candidates, InferenceRequest, Keep, PluginParams, plugin


class Requirement(PluginParams):
    """A condition on a label."""

    key: str = Field(min_length=1)
    """The name of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared. `NotIn` also matches endpoints without the label."""
    values: tuple[str, ...] = ()
    """The values to compare with: at least one for `In` and `NotIn`, none for the others."""

    @model_validator(mode="after")
    def _values_match_operator(self) -> Requirement:
        takes_values = self.operator in ("In", "NotIn")
        if takes_values != bool(self.values):
            message = f"the operator {self.operator} takes {'at least one value' if takes_values else 'no values'}"
            raise ValueError(message)
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the condition."""
        return _OPERATORS[self.operator](labels.get(self.key), self.values)


_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


@plugin(
    "label-selector-filter",
    aliases=("by-label-selector",),
    deprecated={"by-label-selector": "label-selector-filter"},
)
class LabelSelectorFilter:
    """Keeps the endpoints whose labels match a Kubernetes label selector; without conditions, all endpoints."""

    class Params(PluginParams):
        """The selector. Every condition must match."""

        match_labels: dict[str, str] = Field(default_factory=dict, examples=[{"pool": "gold"}])
        """Labels and the values that they must have."""
        match_expressions: tuple[Requirement, ...] = ()
        """Further conditions."""

    def __init__(self, params: Params) -> None:
        self._labels = params.match_labels
        self._requirements = params.match_expressions

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True if every condition matches."""
        return [self._selects(endpoint.labels) for endpoint in candidates]

    def _selects(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self._labels.items()) and all(
            requirement.matches(labels) for requirement in self._requirements
        )
