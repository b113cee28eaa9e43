"""The role label of prefill and decode workers."""

from __future__ import annotations

from pointsman import ROLE_LABEL, Candidates

DECODE_ROLES = frozenset({"decode", "prefill-decode", "both", "encode-prefill-decode"})
PREFILL_ROLES = frozenset({"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"})


def with_role(candidates: Candidates, roles: frozenset[str], *, unlabelled: bool) -> list[bool]:
    """Whether each candidate has one of `roles`; `unlabelled` is the value for candidates without a role label."""
    labels = [endpoint.labels.get(ROLE_LABEL) for endpoint in candidates]
    return [unlabelled if role is None else role in roles for role in labels]
