"""`cheapest-scorer`: prefers endpoints with a low price."""

import math

import numpy as np

from pointsman import Candidates, InferenceRequest, PluginParams, Scores, plugin


@plugin("cheapest-scorer", category="distribution")
class CheapestScorer:
    """Prefers endpoints with a low price: 1 for the cheapest, 0 for the most expensive; 1 for all at the same price."""

    class Params(PluginParams):
        label: str = "price"
        """The label with the price of an endpoint, in any unit that all endpoints share."""
        default_price: float = 1.0
        """The price of endpoints whose label is missing or not a finite number."""

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
