"""What an engine's prefix cache would key on, as bytes.

Two bodies that an engine renders to one prompt give the same bytes as far as that can be told without its chat
template: the order is tool definitions, then each message's role and content.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from xxhash import xxh3_128_digest

from app.domain.errors import BadRequestError
from app.domain.request import BYTES_PER_TOKEN

MEDIA_TOKENS = 256
"""Tokens that an image, a clip or a file is taken to be; engines turn one into some hundreds."""

_TOOLS = b"\x00tools\x00"
_ROLE = b"\x00"
_CONTENT = b"\x01"
_NEXT_PART = b"\n"


def of_messages(messages: Sequence[Any], tools: Any = None) -> bytes:
    """A chat: `tools`, then the messages. Content given as text or as one text part is the same."""
    pieces: list[bytes] = []
    if tools:
        pieces += (_TOOLS, _json(tools))
    for message in messages:
        if isinstance(message, Mapping):
            _add_message(message, pieces)
        else:
            pieces += (_CONTENT, _json(message))
    return b"".join(pieces)


def of_text_or_tokens(prompt: Any) -> tuple[bytes, ...]:
    """The prompts of a completion or an embedding: text, a list of texts, token ids, or a list of those."""
    if isinstance(prompt, str):
        return (_text(prompt),)
    if not isinstance(prompt, list) or not prompt:
        return ()
    if all(isinstance(item, int) for item in prompt):
        return (_tokens(prompt),)
    try:
        return tuple([single for item in prompt for single in of_text_or_tokens(item)])
    except RecursionError:
        raise BadRequestError("the body is nested too deep") from None


_WORDS = ("tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking")
"""Parts of messages that engines render as text."""


def _add_message(message: Mapping[str, Any], pieces: list[bytes]) -> None:
    pieces += (_ROLE, _text(message.get("role") or message.get("type")), _CONTENT)
    _add_content(message.get("content"), pieces)
    for key in ("tool_calls", "tool_call_id", "name", "arguments", "output"):
        if value := message.get(key):
            pieces += (_CONTENT, _json(value))


def _add_content(content: Any, pieces: list[bytes]) -> None:
    if not isinstance(content, list):
        pieces.append(_text(content))
        return
    for index, part in enumerate(content):
        if index:
            pieces.append(_NEXT_PART)
        pieces.append(_part(part))


def _part(part: Any) -> bytes:
    if isinstance(part, str):
        return _text(part)
    if isinstance(part, Mapping):
        text = part.get("text")
        if isinstance(text, str) and part.get("type") in ("text", "input_text", "output_text"):
            return _text(text)
        if part.get("type") in _WORDS:
            return _json(part)
    return _media(part)


def _media(part: Any) -> bytes:
    """A digest of the part, repeated to the length of `MEDIA_TOKENS`, so that it weighs as much as it costs."""
    url = part.get("image_url") if isinstance(part, Mapping) else None
    if isinstance(url, Mapping):
        url = url.get("url")
    digest: bytes = xxh3_128_digest(_text(url) if isinstance(url, str) else _json(part))
    return digest * (MEDIA_TOKENS * BYTES_PER_TOKEN // len(digest))


def _tokens(ids: Iterable[int]) -> bytes:
    return array("I", [token & 0xFFFFFFFF for token in ids]).tobytes()


def _text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return b"" if value is None else _json(value)


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # lone surrogates, or integers over 64 bits
        return repr(value).encode("utf-8", "surrogatepass")
