"""Reads the token usage from a JSON response, or from an event of a stream.

Supports the fields of the OpenAI API (`usage`, within `response` in the Responses API), of the Anthropic API (`usage`,
within `message` at the start of a stream) and of SGLang's native API (`meta_info`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from app.domain.usage import Usage
from app.parsing.json_body import count_of

_HINTS = (b'"usage"', b'"meta_info"')
"""JSON without any of these has no usage."""

_NOTHING = Usage()


def usage_of(text: bytes) -> Usage | None:
    """The usage in a JSON text, None if it has none or is invalid."""
    if _HINTS[0] not in text and _HINTS[1] not in text:
        return None
    try:
        return usage_in(orjson.loads(text))
    except orjson.JSONDecodeError:
        return None


def usage_in(fields: Any) -> Usage | None:
    """The usage in a response or an event of a stream, None if it has none."""
    if not isinstance(fields, dict):
        return None
    usage = next(
        (found for found in map(_usage_field, (fields, fields.get("response"), fields.get("message"))) if found), None
    )
    if usage is None:
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    cached = count_of(details, "cached_tokens")
    read = Usage(
        count_of(usage, "prompt_tokens", "input_tokens"),
        count_of(usage, "completion_tokens", "output_tokens"),
        cached if cached is not None else count_of(usage, "cached_tokens", "cache_read_input_tokens"),
    )
    return None if read == _NOTHING else read


def _usage_field(fields: Any) -> Mapping[str, Any] | None:
    if not isinstance(fields, dict):
        return None
    found = fields.get("usage") or fields.get("meta_info")
    return found if isinstance(found, dict) else None
