"""The OpenAI API: chat, completions, embeddings, responses, conversations, images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.json_body import JsonObject, count_of, json_object, kind_of, model_of, text_or_none
from app.parsing.prompts import media_in, of_messages, of_text_or_tokens

_PromptReader = Callable[[JsonObject], tuple[bytes, ...]]
"""Takes the fields of a body and returns its prompts. Raises `BadRequestError`."""


def parse_openai(raw: RawRequest) -> InferenceRequest:
    """Parses a request to one of `OPENAI_PATHS`. Raises `BadRequestError`, also for any other path."""
    read_prompts = _reader_of(raw.path)
    if read_prompts is None:
        raise BadRequestError(f"the path {raw.path} is not part of the OpenAI API")
    fields = json_object(raw.body)
    optional = read_prompts is _conversation_prompts
    model = text_or_none(fields.get("model")) or "" if optional else model_of(fields)
    return raw.parsed(
        model=model,
        adapter=text_or_none(fields.get("lora_path")),
        cache_salt=text_or_none(fields.get("cache_salt")),
        prompts=_prompts(read_prompts, fields),
        streaming=fields.get("stream") is True,
        max_output_tokens=count_of(fields, "max_completion_tokens", "max_tokens", "max_output_tokens"),
        media=media_in(fields.get("messages")) + media_in(fields.get("input")),
    )


@lru_cache(maxsize=256)
def _reader_of(path: str) -> _PromptReader | None:
    path = path.rstrip("/")
    return next((read for suffix, read in _PROMPTS.items() if path.endswith(suffix)), None)


def _prompts(read: _PromptReader, fields: JsonObject) -> tuple[bytes, ...]:
    try:
        return read(fields)
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None


def _chat_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError(f"'messages' must be a list of at least one message, found {kind_of(messages)}")
    return (of_messages(messages, fields.get("tools")),)


def _completion_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    prompts = of_text_or_tokens(fields.get("prompt"))
    if not any(prompts) and "prompt_embeds" not in fields:
        found = kind_of(fields.get("prompt"))
        raise BadRequestError(f"'prompt' must be non-empty text, token ids or a list of these, found {found}")
    return prompts


def _embedding_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    if isinstance(fields.get("messages"), list):
        return _chat_prompts(fields)
    prompts = of_text_or_tokens(fields.get("input"))
    if not any(prompts):
        found = kind_of(fields.get("input"))
        raise BadRequestError(f"'input' must be non-empty text, token ids or a list of these, found {found}")
    return prompts


def _responses_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    given = fields.get("input")
    missing = given is None and ("prompt" in fields or "previous_response_id" in fields)
    if not missing and (not given or not isinstance(given, str | list)):
        raise BadRequestError(f"'input' must be non-empty text or a non-empty list of items, found {kind_of(given)}")
    instructions = fields.get("instructions")
    messages = [{"role": "system", "content": instructions}] if instructions else []
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    return (of_messages([*messages, *items], fields.get("tools")),)


def _conversation_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    items = fields.get("items")
    if not isinstance(items, list) or not items:
        raise BadRequestError(f"'items' must be a list of at least one item, found {kind_of(items)}")
    return (of_messages(items),)


def _image_prompts(fields: JsonObject) -> tuple[bytes, ...]:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise BadRequestError(f"'prompt' must be non-empty text, found {kind_of(prompt)}")
    return of_text_or_tokens(prompt)


_PROMPTS: Mapping[str, _PromptReader] = {
    "chat/completions/render": _chat_prompts,
    "chat/completions": _chat_prompts,
    "completions/render": _completion_prompts,
    "completions": _completion_prompts,
    "embeddings": _embedding_prompts,
    "responses": _responses_prompts,
    "conversations": _conversation_prompts,
    "images/generations": _image_prompts,
}
"""Readers by path suffix. A suffix precedes the shorter suffixes that it ends with."""

OPENAI_PATHS = tuple(_PROMPTS)
"""Path suffixes of the API, made of whole segments."""
