"""`cheapest-scorer`: a low price is better."""

import math

import numpy as np

from pointsman import Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("cheapest-scorer", category="distribution")
class CheapestScorer:
    """Prefers endpoints with a low price: the cheapest gets 1, the dearest 0; all get 1 if they cost the same."""

    class Params(PluginParams):
        label: str = "price"
        """The label that holds an endpoint's price; any unit, as long as it is the same for all."""
        default_price: float = 1.0
        """The price of an endpoint whose label is missing or holds no finite number."""

    def __init__(self, params: Params) -> None:
        self._label = params.label
        self._default = params.default_price

    def score(self, request: InferenceRequest, candidates: Candidates) -> Scores:
        prices = np.array([self._price(endpoint.labels.get(self._label, "")) for endpoint in candidates])
        low, high = prices.min(), prices.max()
        return np.ones(len(prices)) if low == high else (high - prices) / (high - low)

    def _price(self, text: str) -> float:
        try:
            price = float(text)
        except ValueError:
            return self._default
        return price if math.isfinite(price) else self._default
