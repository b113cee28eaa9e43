"""The protobuf messages that the gRPC parsers read, reduced to the fields they need.

Field numbers are those of vLLM's `vllm_engine.proto`, of `google/cloud/aiplatform/v1/prediction_service.proto` and of
`google/api/httpbody.proto`. Protobuf skips the other fields. The syntax is `proto2` to distinguish absent fields from
zeros. The type is `bytes` instead of `string` where the value is used as bytes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_PACKAGE = "pointsman.parsing"


def _field(
    name: str, number: int, kind: FieldDescriptorProto.Type.ValueType | str, *, repeated: bool = False
) -> FieldDescriptorProto:
    """A field of a scalar type, or of the message named `kind`."""
    label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if isinstance(kind, str):
        message = FieldDescriptorProto.TYPE_MESSAGE
        return FieldDescriptorProto(
            name=name, number=number, label=label, type=message, type_name=f".{_PACKAGE}.{kind}"
        )
    return FieldDescriptorProto(name=name, number=number, label=label, type=kind)


def _file() -> FileDescriptorProto:
    bytes_, uint32 = FieldDescriptorProto.TYPE_BYTES, FieldDescriptorProto.TYPE_UINT32
    file = FileDescriptorProto(name="pointsman/parsing.proto", package=_PACKAGE, syntax="proto2")
    # vLLM: GenerateRequest, and EmbedRequest with the same numbers
    file.message_type.add(name="TokenizedInput", field=[_field("input_ids", 2, uint32, repeated=True)])
    file.message_type.add(name="SamplingParams", field=[_field("max_tokens", 8, uint32)])
    file.message_type.add(
        name="EngineRequest",
        field=[
            _field("tokenized", 2, "TokenizedInput"),
            _field("text", 3, bytes_),
            _field("sampling_params", 4, "SamplingParams"),
            _field("stream", 5, FieldDescriptorProto.TYPE_BOOL),
        ],
    )
    # Vertex AI: ChatCompletionsRequest, RawPredictRequest and StreamRawPredictRequest
    file.message_type.add(name="HttpBody", field=[_field("data", 2, bytes_)])
    file.message_type.add(name="PredictionRequest", field=[_field("http_body", 2, "HttpBody")])
    return file


_POOL = DescriptorPool()
_POOL.Add(_file())


def _class_of(message: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{message}"))


EngineRequest = _class_of("EngineRequest")
PredictionRequest = _class_of("PredictionRequest")
