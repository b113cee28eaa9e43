"""`header-based-testing-filter`: endpoints that the request names, for the conformance tests of gateways."""

from __future__ import annotations

from pointsman import Candidates, InferenceRequest, Keep, parse_authority, plugin

HEADER = "test-epp-endpoint-selection"


@plugin("header-based-testing-filter")
class HeaderBasedTestingFilter:
    """Keeps the endpoints that the header `test-epp-endpoint-selection` names; without it none. Not for production:
    it lets clients choose.

    The header is a list of `ip` or `ip:port`, with commas between and IPv6 in brackets; an `ip` stands for all its
    ports.
    """

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True where the header has the endpoint's address, with its port or without one."""
        named = {entry.strip() for entry in request.headers.get(HEADER, "").split(",")}
        named |= set(filter(None, map(parse_authority, named)))
        named |= {
            authority.removesuffix(":1")
            for authority in filter(None, (parse_authority(f"{entry}:1") for entry in named))
        }
        return [not named.isdisjoint((endpoint.authority, endpoint.host)) for endpoint in candidates]
