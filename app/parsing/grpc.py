"""gRPC bodies: the frame around a message, and the fields of a message in the protobuf wire format.

Only a few fields of two messages are read, so this is a reader of the wire format and no generated code.
Numbers of fields are those of vLLM's `vllm_engine.proto` and of `google/cloud/aiplatform/v1/prediction_service.proto`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.openai import parse_openai

VLLM_GRPC_PATHS = ("vllm.grpc.engine.VllmEngine/Generate", "vllm.grpc.engine.VllmEngine/Embed")
VERTEX_PATHS = tuple(
    f"google.cloud.aiplatform.{version}.PredictionService/{method}"
    for version in ("v1", "v1beta1")
    for method in ("ChatCompletions", "RawPredict", "StreamRawPredict")
)

_FRAME = 5
"""Bytes before a message: whether it is compressed, and its length."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Field = tuple[int, int | bytes]


def message_of(body: bytes) -> bytes:
    """The first message of a gRPC body. Raises `BadRequestError` when there is none, or it is compressed."""
    if len(body) < _FRAME or len(body) < _FRAME + int.from_bytes(body[1:_FRAME], "big"):
        raise BadRequestError("the body is no whole gRPC message")
    if body[0]:
        raise BadRequestError("the gRPC message is compressed, and can't be read")
    return body[_FRAME : _FRAME + int.from_bytes(body[1:_FRAME], "big")]


def fields_of(message: bytes) -> Iterator[Field]:
    """Number and value of each field of a message. Raises `BadRequestError` when it is cut off or malformed."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise BadRequestError("the gRPC message is malformed")
        if at + length > len(message):
            raise BadRequestError("the gRPC message is cut off")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:  # noqa: PLR2004 - a varint has ten bytes at most
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last one has no high bit
            return value, at
        shift += 7
    raise BadRequestError("the gRPC message is cut off")


def parse_vllm_grpc(raw: RawRequest) -> InferenceRequest:
    """A request of vLLM's engine service: text, or token ids. It names no model. Raises `BadRequestError`."""
    fields = dict(fields_of(message_of(raw.body)))
    tokenized, text, sampling = fields.get(2), fields.get(3), fields.get(4)
    generates = raw.path.rstrip("/").endswith("Generate")
    if isinstance(tokenized, bytes):
        prompt = _token_ids(tokenized)
    else:
        prompt = text if generates and isinstance(text, bytes) else b""
    if not prompt:
        raise BadRequestError("the gRPC message has no prompt: neither text nor token ids")
    limit = dict(fields_of(sampling)).get(8) if isinstance(sampling, bytes) else None
    return raw.parsed(
        prompts=(prompt,),
        streaming=generates and fields.get(5) == 1,
        max_output_tokens=limit if isinstance(limit, int) else None,
    )


def _token_ids(tokenized: bytes) -> bytes:
    """The ids of a `TokenizedInput`, four bytes each."""
    ids = array("I")
    for number, value in fields_of(tokenized):
        if number != 2:  # noqa: PLR2004 - the field of the ids
            continue
        if isinstance(value, int):
            ids.append(value & 0xFFFFFFFF)
            continue
        at = 0
        while at < len(value):
            token, at = _varint(value, at)
            ids.append(token & 0xFFFFFFFF)
    return ids.tobytes()


def parse_vertex(raw: RawRequest) -> InferenceRequest:
    """A request of Vertex AI's prediction service, which wraps a body of the OpenAI API. Raises `BadRequestError`."""
    body = dict(fields_of(message_of(raw.body))).get(2)
    data = dict(fields_of(body)).get(2) if isinstance(body, bytes) else None
    if not isinstance(data, bytes):
        raise BadRequestError("the gRPC message has no HTTP body with data")
    api = "/v1/chat/completions" if raw.path.rstrip("/").endswith("ChatCompletions") else "/v1/responses"
    inner = parse_openai(RawRequest(raw.id, api, data, headers=raw.headers, size=raw.size))
    return raw.parsed(
        model=inner.model,
        adapter=inner.adapter,
        cache_salt=inner.cache_salt,
        prompts=inner.prompts,
        streaming=inner.streaming,
        max_output_tokens=inner.max_output_tokens,
    )
