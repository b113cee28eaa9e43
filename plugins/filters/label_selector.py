"""`label-selector-filter`: endpoints by a Kubernetes label selector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field, model_validator

from pointsman import Candidates, InferenceRequest, Keep, PluginParams, plugin


class Requirement(PluginParams):
    """One condition on one label."""

    key: str = Field(min_length=1)
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """`NotIn` also holds for endpoints without the label."""
    values: tuple[str, ...] = ()
    """For `In` and `NotIn` at least one; for the others none."""

    @model_validator(mode="after")
    def _values_fit_the_operator(self) -> Requirement:
        takes_values = self.operator in ("In", "NotIn")
        if takes_values != bool(self.values):
            message = f"operator {self.operator} takes {'at least one value' if takes_values else 'no values'}"
            raise ValueError(message)
        return self

    def holds(self, labels: Mapping[str, str]) -> bool:
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
    """Keeps the endpoints whose labels meet every condition; without conditions all of them."""

    class Params(PluginParams):
        """A Kubernetes LabelSelector."""

        match_labels: dict[str, str] = Field(default_factory=dict, examples=[{"pool": "gold"}])
        """Labels that must have just these values."""
        match_expressions: tuple[Requirement, ...] = ()
        """Further conditions; all must hold."""

    def __init__(self, params: Params) -> None:
        self._labels = params.match_labels
        self._requirements = params.match_expressions

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:  # noqa: ARG002
        """True where every condition holds."""
        return [self._selects(endpoint.labels) for endpoint in candidates]

    def _selects(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self._labels.items()) and all(
            requirement.holds(labels) for requirement in self._requirements
        )
