"""`by-label`: keeps endpoints by the value of one label."""

from __future__ import annotations

from pydantic import Field, model_validator

from pointsman import Candidates, InferenceRequest, Keep, PluginParams, plugin


@plugin("by-label", deprecated={"by-label": "label-selector-filter"})
class ByLabel:
    """Keeps the endpoints whose label has one of the given values. Deprecated: use `label-selector-filter`."""

    class Params(PluginParams):
        """The label and its values."""

        label: str = Field(min_length=1, examples=["pool"])
        """The name of the label."""
        valid_values: tuple[str, ...] = Field(default=(), examples=[["gold"]])
        """The values to keep. An empty string also keeps endpoints without the label."""
        allows_no_label: bool = False
        """Also keep endpoints without the label."""

        @model_validator(mode="after")
        def _keeps_endpoints(self) -> ByLabel.Params:
            if not self.valid_values and not self.allows_no_label:
                raise ValueError("validValues is empty and allowsNoLabel is false, so no endpoint would be kept")
            return self

    def __init__(self, params: Params) -> None:
        self._label = params.label
        self._values = frozenset(params.valid_values)
        self._unlabelled = params.allows_no_label or "" in self._values

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True for a valid value, and for no label if that is allowed."""
        values = [endpoint.labels.get(self._label) for endpoint in candidates]
        return [self._unlabelled if value is None else value in self._values for value in values]
