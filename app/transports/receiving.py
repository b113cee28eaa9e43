"""A request that has come whole: read, and given another model where its headers ask for that."""

from __future__ import annotations

import random
import re
from typing import NamedTuple
from urllib.parse import unquote

from app.domain.errors import RoutingError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.rewriting import with_model
from app.routing.router import Router
from app.transports.compression import decompressed

LONGEST_REQUEST_ID = 200
"""Characters of a client's `x-request-id` that are taken over; one that is longer, or more than ASCII, is replaced."""

_PLAIN = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_ids = random.Random()  # seeded by the system; ids need not be secret


class ReceivedRequest(NamedTuple):
    """A request as it goes on."""

    request: InferenceRequest
    body: bytes | None
    """The body with another model in it, not compressed; None if it goes on as it came."""


def receive(router: Router, raw: RawRequest, *, encoding: str, model: str, limit: int) -> ReceivedRequest:
    """Reads `raw`, whose body is still in its content-encoding `encoding` and may inflate to `limit` bytes.

    `model` is to be served instead of the one that the body names, if it names one. Raises what `Router.parse` and
    `decompressed` do; the router's observers have then been told.
    """
    try:
        plain = raw.body
        if encoding:
            plain = decompressed(plain, encoding, limit=limit)
            raw = RawRequest(raw.id, raw.path, plain, raw.method, raw.headers, raw.size)
        request = router.parse(raw)
        if not model or not request.model or model == request.model:
            return ReceivedRequest(request, None)
        body = with_model(plain, model)
        if body is None:  # the model stands where only its parser finds it
            return ReceivedRequest(request, None)
        return ReceivedRequest(
            router.parse(RawRequest(raw.id, raw.path, body, raw.method, raw.headers, raw.size)), body
        )
    except RoutingError as error:
        router.refuse(InferenceRequest(raw.id, raw.path, raw.method), error)
        raise


def path_of(target: str) -> str:
    """The path of a request's target: without the query, escapes resolved."""
    path = target.partition("?")[0]
    return unquote(path) if "%" in path else path


def request_id_of(given: str) -> str:
    """The client's request id, or a new one."""
    if given and len(given) <= LONGEST_REQUEST_ID and _PLAIN.fullmatch(given):
        return given
    return f"{_ids.getrandbits(128):032x}"
