"""The native HTTP APIs of vLLM and SGLang, which accept token ids."""

from __future__ import annotations

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.json_body import count_of, json_object, kind_of, text_or_none
from app.parsing.prompts import of_text_or_tokens

VLLM_PATHS = ("inference/v1/generate",)
SGLANG_PATHS = ("generate",)


def parse_vllm_generate(raw: RawRequest) -> InferenceRequest:
    """Parses a request of vLLM's `/inference/v1/generate`. Raises `BadRequestError`."""
    fields = json_object(raw.body)
    ids = fields.get("token_ids")
    prompts = of_text_or_tokens(ids) if isinstance(ids, list) and all(map(_is_token, ids)) else ()
    if not any(prompts):
        raise BadRequestError(f"'token_ids' must be a non-empty list of token ids, found {kind_of(ids)}")
    return raw.parsed(
        model=text_or_none(fields.get("model")) or "",
        cache_salt=text_or_none(fields.get("cache_salt")),
        prompts=prompts,
        streaming=fields.get("stream") is True,
        max_output_tokens=count_of(fields.get("sampling_params"), "max_tokens"),
    )


def parse_sglang_generate(raw: RawRequest) -> InferenceRequest:
    """Parses a request of SGLang's `/generate`: text or token ids, one prompt or several. Raises `BadRequestError`."""
    fields = json_object(raw.body)
    key = "text" if fields.get("input_ids") is None else "input_ids"
    prompts = of_text_or_tokens(fields.get(key))
    if not any(prompts):
        raise BadRequestError(f"'text' or 'input_ids' must be set and not empty, found {kind_of(fields.get(key))}")
    return raw.parsed(
        adapter=text_or_none(fields.get("lora_path")),
        cache_salt=text_or_none(fields.get("extra_key")),
        prompts=prompts,
        streaming=fields.get("stream") is True,
        max_output_tokens=count_of(fields.get("sampling_params"), "max_new_tokens"),
    )


def _is_token(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)
