"""Gives a request another model, and changes no other byte of its body."""

from __future__ import annotations

import json

_DECODER = json.JSONDecoder()
_BLANKS = " \t\n\r"


def with_model(body: bytes, model: str) -> bytes | None:
    """`body`, a JSON object that a parser has read, with `model` as the model that it names.

    None if it is no JSON object, or names no model.
    """
    if not body.lstrip().startswith(b"{"):
        return None
    text = body.decode()
    found = _model_in(text)
    if found is None:
        return None
    start, end = found
    return text[:start].encode() + json.dumps(model).encode() + text[end:].encode()


def _model_in(text: str) -> tuple[int, int] | None:
    """Where the value of the top-level `model` begins and ends."""
    at = _skip_blanks(text, text.index("{") + 1)
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        start = _skip_blanks(text, _skip_blanks(text, at) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(text, start)
        if key == "model":
            return start, end
        at = _skip_blanks(text, _skip_blanks(text, end) + 1)  # behind the comma
    return None


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS and at < len(text):
        at += 1
    return at
