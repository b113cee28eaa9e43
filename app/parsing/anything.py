"""Requests that are forwarded without knowing their API."""

from __future__ import annotations

from urllib.parse import unquote

import orjson

from app.domain.request import InferenceRequest, RawRequest

_MODELS = "/v1/models/"


def parse_anything(raw: RawRequest, *, read_model: bool = True) -> InferenceRequest:
    """Accepts any body. With `read_model`, the model and whether it streams are read from a JSON object."""
    if not read_model or raw.body.lstrip()[:1] != b"{":
        return raw.parsed()
    try:
        fields = orjson.loads(raw.body)
    except ValueError:
        return raw.parsed()
    model = fields.get("model")
    return raw.parsed(model=model if isinstance(model, str) else "", streaming=fields.get("stream") is True)


def without_body(raw: RawRequest) -> InferenceRequest:
    """A request with a method other than POST. Only the path can name a model."""
    model = unquote(raw.path.removeprefix(_MODELS)) if raw.path.startswith(_MODELS) else ""
    return raw.parsed(model=model)
