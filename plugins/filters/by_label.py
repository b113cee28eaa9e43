"""`by-label`: endpoints by the values of one label."""

from __future__ import annotations

from pydantic import Field, model_validator

from pointsman import Candidates, InferenceRequest, Keep, PluginParams, plugin


@plugin("by-label", deprecated={"by-label": "label-selector-filter"})
class ByLabel:
    """Keeps endpoints whose label has one of the values. Deprecated: `label-selector-filter` does the same and more."""

    class Params(PluginParams):
        """Which label, and which values."""

        label: str = Field(min_length=1, examples=["pool"])
        """The label."""
        valid_values: tuple[str, ...] = Field(default=(), examples=[["gold"]])
        """Values that are kept."""
        allows_no_label: bool = False
        """Keep endpoints without the label as well."""

        @model_validator(mode="after")
        def _keeps_something(self) -> ByLabel.Params:
            if not self.valid_values and not self.allows_no_label:
                raise ValueError("validValues is empty and allowsNoLabel is false: no endpoint would be kept")
            return self

    def __init__(self, params: Params) -> None:
        self._label = params.label
        self._values = frozenset(params.valid_values)
        self._unlabelled = params.allows_no_label or "" in self._values

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:  # noqa: ARG002
        """True where the label's value is valid, or where there is none and that is allowed."""
        values = [endpoint.labels.get(self._label) for endpoint in candidates]
        return [self._unlabelled if value is None else value in self._values for value in values]
