"""`prefill-filter`: the endpoints that prefill."""

from __future__ import annotations

from plugins.shared.roles import PREFILL_ROLES, with_role
from pointsman import Candidates, InferenceRequest, Keep, plugin


@plugin("prefill-filter", aliases=("prefill-endpoints",))
class PrefillFilter:
    """Keeps endpoints whose role includes prefilling. One without a role label is not kept."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:  # noqa: ARG002
        """True for prefill workers."""
        return with_role(candidates, PREFILL_ROLES, unlabelled=False)
