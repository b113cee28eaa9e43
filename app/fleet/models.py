"""Fetches the model lists of endpoints, from `/v1/models`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any

import orjson

from app.domain.endpoint import Endpoint
from app.extension.services import HttpClient

ModelCard = Mapping[str, Any]
"""One model as an endpoint describes it; `id` is its name."""


class ModelLists:
    """Fetches the model lists of endpoints."""

    def __init__(self, http: HttpClient, tls: SSLContext | None = None) -> None:
        """`tls` is for endpoints that speak HTTPS."""
        self._http = http
        self._tls = tls

    async def names(self, endpoint: Endpoint, timeout: float) -> frozenset[str] | None:  # noqa: ASYNC109
        """The names of the endpoint's models; None if it has no model list. Raises `OSError` if it does not respond."""
        cards = await self.cards(endpoint, timeout)
        return None if cards is None else frozenset(card["id"] for card in cards)

    async def cards(self, endpoint: Endpoint, timeout: float) -> Sequence[ModelCard] | None:  # noqa: ASYNC109
        """The endpoint's models as it describes them; None if it has no model list. Raises `OSError`."""
        url = f"{endpoint.url}/v1/models"
        options = {"socket": endpoint.socket} if endpoint.socket else {}
        response = await self._http.get(url, timeout=timeout, tls=self._tls or True, **options)
        if response.status != 200:  # noqa: PLR2004
            return None
        try:
            data = orjson.loads(response.body)
        except ValueError:
            return None
        cards = data.get("data") if isinstance(data, dict) else None
        if not isinstance(cards, list):
            return None
        return [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
