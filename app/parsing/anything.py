"""Requests of which nothing has to be understood."""

from __future__ import annotations

from urllib.parse import unquote

import orjson

from app.domain.request import InferenceRequest, RawRequest

_MODELS = "/v1/models/"


def parse_anything(raw: RawRequest, *, read_model: bool = True) -> InferenceRequest:
    """The request as it is; `read_model`: with the model and the streaming that a JSON object of a body names."""
    if not read_model or raw.body.lstrip()[:1] != b"{":
        return raw.parsed()
    try:
        fields = orjson.loads(raw.body)
    except ValueError:
        return raw.parsed()
    model = fields.get("model")
    return raw.parsed(model=model if isinstance(model, str) else "", streaming=fields.get("stream") is True)


def without_body(raw: RawRequest) -> InferenceRequest:
    """A request by another method than POST: it is about a model only if its path names one."""
    named = unquote(raw.path.removeprefix(_MODELS)) if raw.path.startswith(_MODELS) else ""
    return raw.parsed(model=named)
