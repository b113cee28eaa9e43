"""`decode-filter`: keeps the endpoints that can decode."""

from __future__ import annotations

from plugins.shared.roles import DECODE_ROLES, with_role
from pointsman import Candidates, InferenceRequest, Keep, plugin


@plugin("decode-filter", aliases=("decode-endpoints",))
class DecodeFilter:
    """Keeps the endpoints whose role includes decode, and the endpoints without a role label."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True for decode workers and for endpoints without a role."""
        return with_role(candidates, DECODE_ROLES, unlabelled=True)
