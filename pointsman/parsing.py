"""The built-in parsing functions, for parsers of your own that build on them."""

from app.parsing.anthropic import MESSAGES_PATHS, parse_messages
from app.parsing.anything import parse_anything
from app.parsing.engines import SGLANG_PATHS, VLLM_PATHS, parse_sglang_generate, parse_vllm_generate
from app.parsing.grpc import VERTEX_PATHS, VLLM_GRPC_PATHS, parse_vertex, parse_vllm_grpc
from app.parsing.json_body import count_of, json_object, kind_of, model_of, text_or_none
from app.parsing.openai import OPENAI_PATHS, parse_openai
from app.parsing.prompts import of_messages, of_text_or_tokens

__all__ = [
    "MESSAGES_PATHS",
    "OPENAI_PATHS",
    "SGLANG_PATHS",
    "VERTEX_PATHS",
    "VLLM_GRPC_PATHS",
    "VLLM_PATHS",
    "count_of",
    "json_object",
    "kind_of",
    "model_of",
    "of_messages",
    "of_text_or_tokens",
    "parse_anything",
    "parse_messages",
    "parse_openai",
    "parse_sglang_generate",
    "parse_vertex",
    "parse_vllm_generate",
    "parse_vllm_grpc",
    "text_or_none",
]
