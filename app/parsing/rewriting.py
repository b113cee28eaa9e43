"""Replaces the model in a request body without changing any other byte."""

from __future__ import annotations

import json

from app.domain.errors import BadRequestError

_DECODER = json.JSONDecoder()
_BLANKS = " \t\n\r"


def with_model(body: bytes, model: str) -> bytes | None:
    """`body`, JSON that a parser has accepted, with `model` as its model.

    None if it is not a JSON object or names no model.
    """
    encoding = json.detect_encoding(body)
    text = body.decode(encoding, "surrogatepass")
    if not text.lstrip(_BLANKS).startswith("{"):
        return None
    try:
        found = _model_in(text)
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    if found is None:
        return None
    start, end = found
    return f"{text[:start]}{json.dumps(model)}{text[end:]}".encode(encoding, "surrogatepass")


def _model_in(text: str) -> tuple[int, int] | None:
    """Start and end of the value of the top-level `model`, None if there is none."""
    at = _skip_blanks(text, text.index("{") + 1)
    found = None
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        start = _skip_blanks(text, _skip_blanks(text, at) + 1)  # after the colon
        _, end = _DECODER.raw_decode(text, start)
        if key == "model":
            found = start, end  # the last one counts
        at = _skip_blanks(text, _skip_blanks(text, end) + 1)  # after the comma
    return found


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS and at < len(text):
        at += 1
    return at
