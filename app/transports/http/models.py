"""`GET /v1/models`: the models of all endpoints."""

from __future__ import annotations

import asyncio

import orjson

from app.domain.endpoint import Endpoint
from app.domain.errors import NoEndpointsError
from app.fleet.models import ModelCard, ModelLists
from app.fleet.pool import EndpointPool
from app.transports.http.error_responses import id_of, refuse, send_json
from app.transports.http.incoming import IncomingRequest
from app.transports.http.response_writer import ResponseWriter

TIMEOUT = 5.0
"""Seconds that an endpoint has for its list."""


class MergedModels:
    """Responds with the union of the endpoints' lists, in the pool's order; of duplicates the first."""

    def __init__(self, pool: EndpointPool, lists: ModelLists) -> None:
        self._pool = pool
        self._lists = lists

    async def __call__(self, incoming: IncomingRequest, writer: ResponseWriter) -> None:
        """Responds 503 if no endpoint has a list."""
        endpoints = tuple(self._pool.candidates())
        lists = await asyncio.gather(*map(self._cards, endpoints))
        given = [cards for cards in lists if cards is not None]
        request_id = id_of(incoming.head)
        if not given:
            refuse(writer, NoEndpointsError(), request_id, incoming.head)
            return
        merged: dict[str, ModelCard] = {}
        for cards in given:
            for card in cards:
                merged.setdefault(card["id"], card)
        send_json(writer, orjson.dumps({"object": "list", "data": list(merged.values())}), request_id)

    async def _cards(self, endpoint: Endpoint) -> list[ModelCard] | None:
        try:
            cards = await self._lists.cards(endpoint, TIMEOUT)
        except OSError:
            return None
        return None if cards is None else list(cards)
