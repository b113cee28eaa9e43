"""`GET /v1/models`: the models of all endpoints."""

from __future__ import annotations

import asyncio

import orjson
from aiohttp import web

from app.domain.endpoint import Endpoint
from app.domain.errors import NoEndpointsError
from app.fleet.models import ModelCard, ModelLists
from app.fleet.pool import EndpointPool
from app.transports.http.handler import refuse, request_id_of
from app.transports.http.headers import REQUEST_ID

TIMEOUT = 5.0
"""Seconds that an endpoint has to give its list."""


class MergedModels:
    """Answers with the union of the endpoints' lists, in the pool's order; of a model listed twice the first."""

    def __init__(self, pool: EndpointPool, lists: ModelLists) -> None:
        self._pool = pool
        self._lists = lists

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """503 if no endpoint gives a list."""
        endpoints = tuple(self._pool.candidates())
        lists = await asyncio.gather(*map(self._cards, endpoints))
        given = [cards for cards in lists if cards is not None]
        request_id = request_id_of(request)
        if not given:
            return refuse(NoEndpointsError(), request_id)
        merged: dict[str, ModelCard] = {}
        for cards in given:
            for card in cards:
                merged.setdefault(card["id"], card)
        body = orjson.dumps({"object": "list", "data": list(merged.values())})
        return web.Response(body=body, content_type="application/json", headers={REQUEST_ID: request_id})

    async def _cards(self, endpoint: Endpoint) -> list[ModelCard] | None:
        try:
            cards = await self._lists.cards(endpoint, TIMEOUT)
        except OSError:
            return None
        return None if cards is None else list(cards)
