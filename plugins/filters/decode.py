"""`decode-filter`: the endpoints that decode."""

from __future__ import annotations

from plugins.shared.roles import DECODE_ROLES, with_role
from pointsman import Candidates, InferenceRequest, Keep, plugin


@plugin("decode-filter", aliases=("decode-endpoints",))
class DecodeFilter:
    """Keeps endpoints whose role includes decoding, and those without a role label."""

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:  # noqa: ARG002
        """True for decode workers."""
        return with_role(candidates, DECODE_ROLES, unlabelled=True)
