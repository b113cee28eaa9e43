"""`header-based-testing-filter`: keeps the endpoints that a request header lists, for gateway conformance tests."""

from __future__ import annotations

from pointsman import Candidates, InferenceRequest, Keep, parse_authority, plugin

HEADER = "test-epp-endpoint-selection"


@plugin("header-based-testing-filter")
class HeaderBasedTestingFilter:
    """Keeps the endpoints that the request header `test-epp-endpoint-selection` lists; without the header, none.
    For conformance tests only: it lets clients choose the endpoint.

    The header is a comma-separated list of `ip` or `ip:port`, IPv6 addresses in brackets. An `ip` without a port
    matches every port.
    """

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Keep:
        """True if the header lists the endpoint's address, with or without its port."""
        named = {entry.strip() for entry in request.headers.get(HEADER, "").split(",")}
        named |= set(filter(None, map(parse_authority, named)))
        named |= {
            authority.removesuffix(":1")
            for authority in filter(None, (parse_authority(f"{entry}:1") for entry in named))
        }
        return [not named.isdisjoint((endpoint.authority, endpoint.host)) for endpoint in candidates]
