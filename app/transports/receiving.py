"""Parses a request that was read completely, and replaces its model if its headers ask for another one."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from app.domain.errors import RoutingError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.rewriting import with_model
from app.transports.compression import decompressed

LONGEST_REQUEST_ID = 200
"""Characters of a client's `x-request-id`; one that is longer or not printable ASCII is replaced."""

_PRINTABLE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_ids = random.Random()  # seeded by the system; ids need not be secret


class Parse(Protocol):
    """Parses a request."""

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError` or `PluginError`."""


class ReceivedRequest(NamedTuple):
    """A parsed request."""

    request: InferenceRequest
    body: bytes | None
    """The body with another model in it, not compressed; None if it is forwarded as it came."""


class Receiver:
    """Parses requests, and reports those that can't be parsed."""

    def __init__(self, *, parsers: Parse, refuse: Callable[[InferenceRequest, RoutingError], None]) -> None:
        """`refuse` is called with each request that can't be parsed."""
        self._parsers = parsers
        self._refuse = refuse

    def receive(self, raw: RawRequest, *, encoding: str, model: str, limit: int) -> ReceivedRequest:
        """Parses `raw`, whose body is still in its content-encoding `encoding` and may inflate to `limit` bytes.

        `model` replaces the model that the body names, if it names one. Raises `BadRequestError`, `PluginError` or
        `BodyTooLargeError`.
        """
        try:
            plain = raw.body
            if encoding:
                plain = decompressed(plain, encoding, limit=limit)
                raw = RawRequest(raw.id, raw.path, plain, raw.method, raw.headers, raw.size)
            request = self._parsers.parse(raw)
            if not model or not request.model or model == request.model:
                return ReceivedRequest(request, None)
            body = with_model(plain, model)
            if body is None:  # the model is where only the request's own parser finds it
                return ReceivedRequest(request, None)
            rewritten = RawRequest(raw.id, raw.path, body, raw.method, raw.headers, raw.size)
            return ReceivedRequest(self._parsers.parse(rewritten), body)
        except RoutingError as error:
            self._refuse(InferenceRequest(raw.id, raw.path, raw.method), error)
            raise


def path_of(target: str) -> str:
    """The path of a request target: without the query, percent escapes decoded."""
    path = target.partition("?")[0]
    return unquote(path) if "%" in path else path


def request_id_of(given: str) -> str:
    """The client's request id, or a new one."""
    if given and len(given) <= LONGEST_REQUEST_ID and _PRINTABLE.fullmatch(given):
        return given
    return f"{_ids.getrandbits(128):032x}"
