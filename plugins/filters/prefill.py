"""`prefill-filter`: keeps the endpoints that can prefill."""

from __future__ import annotations

from plugins.shared.roles import PREFILL_ROLES, with_role
from pointsman import Candidates, InferenceRequest, Keep, plugin


@plugin("prefill-filter", aliases=("prefill-endpoints",))
class PrefillFilter:
    """Keeps the endpoints whose role includes prefill. Endpoints without a role label are removed."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True for prefill workers."""
        return with_role(candidates, PREFILL_ROLES, unlabelled=False)
