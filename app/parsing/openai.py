"""Reads requests of the OpenAI API: chat, completions, embeddings, responses; of any other path what can be told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Never
from urllib.parse import unquote

import orjson

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest
from app.parsing.prompts import of_messages, of_text_or_tokens

Body = Mapping[str, Any]

_MODELS = "/v1/models/"


def parse_request(
    *, request_id: str, method: str, path: str, headers: Mapping[str, str], body: bytes, size: int | None = None
) -> InferenceRequest:
    """The request that `body`, decompressed, holds. `headers` have lower-case names; `size` is the body's as sent.

    Raises `BadRequestError` when the path is one of the four and the body does not fit it. On other paths a body
    that is no JSON object, or names no model, just leaves the model empty.
    """
    size = len(body) if size is None else size
    listed = unquote(path.removeprefix(_MODELS)) if path.startswith(_MODELS) else ""
    plain = InferenceRequest(request_id, path, method, listed, headers=headers, size=size)
    if method != "POST":
        return plain
    read_prompts = _PROMPTS.get(path.rstrip("/"))
    if read_prompts is None:
        return _other(plain, body)
    fields = _object(body)
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError(f"'model' must be the name of a model, found {_kind(model)}")
    return InferenceRequest(
        request_id,
        path,
        method,
        model=model,
        adapter=_text_or_none(fields.get("lora_path")),
        cache_salt=_text_or_none(fields.get("cache_salt")),
        prompts=_prompts(read_prompts, fields),
        headers=headers,
        streaming=fields.get("stream") is True,
        max_output_tokens=_max_output_tokens(fields),
        size=size,
    )


def _prompts(read: Callable[[Body], tuple[bytes, ...]], fields: Body) -> tuple[bytes, ...]:
    try:
        return read(fields)
    except RecursionError:
        raise BadRequestError("the body is nested too deep") from None


def _other(request: InferenceRequest, body: bytes) -> InferenceRequest:
    if body.lstrip()[:1] != b"{":
        return request
    try:
        fields = orjson.loads(body)
    except ValueError:
        return request
    model = fields.get("model")
    return InferenceRequest(
        request.id,
        request.path,
        request.method,
        model=model if isinstance(model, str) else "",
        headers=request.headers,
        streaming=fields.get("stream") is True,
        size=request.size,
    )


def _object(body: bytes) -> Body:
    fields = _json(body)
    if not isinstance(fields, dict):
        raise BadRequestError(f"the body must be a JSON object, found {_kind(fields)}")
    return fields


def _json(body: bytes) -> Any:
    """Parses fast, and slowly where that fails or where `model` may stand twice.

    The slow way also reads what engines read and orjson does not: lone surrogates in strings.
    """
    if body.count(b'"model"') <= 1:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(body, object_pairs_hook=_refuse_two_models, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadRequestError("the body is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise BadRequestError(f"the body is not valid JSON: {error.msg.lower()} at {where}") from None
    except ValueError:
        raise BadRequestError("the body is not valid JSON: it has a number of too many digits") from None
    except RecursionError:
        raise BadRequestError("the body is nested too deep") from None


def _refuse_two_models(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and sum(key == "model" for key, _ in pairs) > 1:
        raise BadRequestError("'model' stands twice in one object of the body")
    return fields


def _refuse_constant(name: str) -> Never:
    raise BadRequestError(f"the body is not valid JSON: {name} is no number")


def _chat_prompts(fields: Body) -> tuple[bytes, ...]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError(f"'messages' must be a list of at least one message, found {_kind(messages)}")
    return (of_messages(messages, fields.get("tools")),)


def _completion_prompts(fields: Body) -> tuple[bytes, ...]:
    prompts = of_text_or_tokens(fields.get("prompt"))
    if not any(prompts) and "prompt_embeds" not in fields:
        found = _kind(fields.get("prompt"))
        raise BadRequestError(f"'prompt' must be text, token ids or a list of these, not empty; found {found}")
    return prompts


def _embedding_prompts(fields: Body) -> tuple[bytes, ...]:
    if isinstance(fields.get("messages"), list):
        return _chat_prompts(fields)
    prompts = of_text_or_tokens(fields.get("input"))
    if not any(prompts):
        found = _kind(fields.get("input"))
        raise BadRequestError(f"'input' must be text, token ids or a list of these, not empty; found {found}")
    return prompts


def _responses_prompts(fields: Body) -> tuple[bytes, ...]:
    given = fields.get("input")
    missing = given is None and ("prompt" in fields or "previous_response_id" in fields)
    if not missing and (not given or not isinstance(given, str | list)):
        raise BadRequestError(f"'input' must be text or a list of items, not empty; found {_kind(given)}")
    instructions = fields.get("instructions")
    messages = [{"role": "system", "content": instructions}] if instructions else []
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    return (of_messages([*messages, *items], fields.get("tools")),)


_PROMPTS: Mapping[str, Callable[[Body], tuple[bytes, ...]]] = {
    "/v1/chat/completions": _chat_prompts,
    "/v1/completions": _completion_prompts,
    "/v1/embeddings": _embedding_prompts,
    "/v1/responses": _responses_prompts,
}


def _max_output_tokens(fields: Body) -> int | None:
    for key in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        value = fields.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _kind(value: Any) -> str:
    """How a value is called in an error; what it holds is never echoed."""
    if value is None:
        return "nothing"
    if value in ("", [], {}):
        return f"an empty {_NAMES[type(value)]}"
    return f"a {_NAMES.get(type(value), 'value')}"


_NAMES: Mapping[type, str] = {
    bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "JSON object"
}  # fmt: skip
