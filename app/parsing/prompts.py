"""Prompts as the bytes that the prefix cache of an engine depends on.

Bodies that an engine renders to the same prompt give the same bytes, as far as that is possible without its chat
template. The order is tool definitions, then role and content of each message.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from xxhash import xxh3_128_digest

from app.domain.errors import BadRequestError
from app.domain.request import BYTES_PER_TOKEN, MEDIA_TOKENS

_TOOLS = b"\x00tools\x00"
_ROLE = b"\x00"
_CONTENT = b"\x01"
_PART_SEPARATOR = b"\n"


def of_messages(messages: Sequence[Any], tools: Any = None) -> bytes:
    """The prompt of a chat: `tools`, then the messages. Content as text equals content as a single text part."""
    chunks: list[bytes] = []
    if tools:
        chunks += (_TOOLS, _json(tools))
    for message in messages:
        if isinstance(message, Mapping):
            _add_message(message, chunks)
        else:
            chunks += (_CONTENT, _json(message))
    return b"".join(chunks)


def media_in(messages: Any) -> int:
    """The number of images, clips and files in the messages of a chat."""
    contents = [message.get("content") for message in _mappings(messages)]
    return sum(_is_media(part) for content in contents if isinstance(content, list) for part in content)


def of_text_or_tokens(prompt: Any) -> tuple[bytes, ...]:
    """The prompts of a completion or embedding: text, token ids, or a list of either. Empty for anything else."""
    if isinstance(prompt, str):
        return (_text(prompt),)
    if not isinstance(prompt, list) or not prompt:
        return ()
    if all(isinstance(item, int) for item in prompt):
        return (_tokens(prompt),)
    try:
        return tuple([single for item in prompt for single in of_text_or_tokens(item)])
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None


_TEXT_PARTS = ("text", "input_text", "output_text")
"""Types of message parts that hold text."""

_JSON_PARTS = ("tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking")
"""Types of other message parts that engines render as text."""


def _add_message(message: Mapping[str, Any], chunks: list[bytes]) -> None:
    chunks += (_ROLE, _text(message.get("role") or message.get("type")), _CONTENT)
    _add_content(message.get("content"), chunks)
    for key in ("tool_calls", "tool_call_id", "name", "arguments", "output"):
        if value := message.get(key):
            chunks += (_CONTENT, _json(value))


def _add_content(content: Any, chunks: list[bytes]) -> None:
    if not isinstance(content, list):
        chunks.append(_text(content))
        return
    for index, part in enumerate(content):
        if index:
            chunks.append(_PART_SEPARATOR)
        chunks.append(_part(part))


def _part(part: Any) -> bytes:
    if _is_media(part):
        return _media(part)
    if isinstance(part, str):
        return _text(part)
    return _json(part) if part.get("type") in _JSON_PARTS else _text(part["text"])


def _is_media(part: Any) -> bool:
    if not isinstance(part, Mapping):
        return not isinstance(part, str)
    kind = part.get("type")
    return not (kind in _JSON_PARTS or (kind in _TEXT_PARTS and isinstance(part.get("text"), str)))


def _mappings(messages: Any) -> list[Mapping[str, Any]]:
    return [one for one in messages if isinstance(one, Mapping)] if isinstance(messages, list) else []


def _media(part: Any) -> bytes:
    """A digest of the part, repeated to the size of `MEDIA_TOKENS`, so that its length reflects its cost."""
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
