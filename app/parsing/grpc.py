"""Requests of the gRPC APIs of vLLM and Vertex AI: a gRPC frame around a protobuf message."""

from __future__ import annotations

from array import array
from typing import Any

from google.protobuf.message import DecodeError

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.grpc_messages import EngineRequest, PredictionRequest
from app.parsing.openai import parse_openai

VLLM_GRPC_PATHS = ("vllm.grpc.engine.VllmEngine/Generate", "vllm.grpc.engine.VllmEngine/Embed")
VERTEX_PATHS = tuple(
    f"google.cloud.aiplatform.{version}.PredictionService/{method}"
    for version in ("v1", "v1beta1")
    for method in ("ChatCompletions", "RawPredict", "StreamRawPredict")
)

_PREFIX = 5
"""Bytes before a message: the compressed flag (1) and the length (4, big-endian)."""


def message_of(body: bytes) -> bytes:
    """The first message of a gRPC body. Raises `BadRequestError` if it is missing, incomplete or compressed."""
    if len(body) < _PREFIX or len(body) < _PREFIX + int.from_bytes(body[1:_PREFIX], "big"):
        raise BadRequestError("the body is not a complete gRPC message")
    if body[0]:
        raise BadRequestError("the gRPC message is compressed, which is not supported")
    return body[_PREFIX : _PREFIX + int.from_bytes(body[1:_PREFIX], "big")]


def parse_vllm_grpc(raw: RawRequest) -> InferenceRequest:
    """Parses a request of vLLM's engine service: text or token ids, no model. Raises `BadRequestError`."""
    message = _decoded(EngineRequest, raw)
    generates = raw.path.rstrip("/").endswith("Generate")
    if message.HasField("tokenized"):
        prompt = array("I", message.tokenized.input_ids).tobytes()
    else:
        prompt = message.text if generates else b""
    if not prompt:
        raise BadRequestError("the gRPC message has no prompt: neither text nor token ids")
    sampling = message.sampling_params
    return raw.parsed(
        prompts=(prompt,),
        streaming=generates and message.stream,
        max_output_tokens=sampling.max_tokens if sampling.HasField("max_tokens") else None,
    )


def parse_vertex(raw: RawRequest) -> InferenceRequest:
    """Parses a request of Vertex AI's prediction service, which wraps an OpenAI body. Raises `BadRequestError`."""
    http_body = _decoded(PredictionRequest, raw).http_body
    if not http_body.HasField("data"):
        raise BadRequestError("the gRPC message has no HTTP body with data")
    api = "/v1/chat/completions" if raw.path.rstrip("/").endswith("ChatCompletions") else "/v1/responses"
    inner = parse_openai(RawRequest(raw.id, api, http_body.data, headers=raw.headers, size=raw.size))
    return raw.parsed(
        model=inner.model,
        adapter=inner.adapter,
        cache_salt=inner.cache_salt,
        prompts=inner.prompts,
        streaming=inner.streaming,
        max_output_tokens=inner.max_output_tokens,
    )


def _decoded(message_class: Any, raw: RawRequest) -> Any:
    message = message_of(raw.body)
    try:
        return message_class.FromString(message)
    except DecodeError:
        raise BadRequestError("the gRPC message is truncated or malformed") from None
