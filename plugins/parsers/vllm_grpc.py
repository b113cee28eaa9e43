"""`vllmgrpc-parser`: parses requests of vLLM's gRPC service."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import VLLM_GRPC_PATHS, parse_vllm_grpc


@plugin("vllmgrpc-parser")
class VllmGrpcParser:
    """Parses `Generate` and `Embed` requests of vLLM's gRPC engine service. These requests have no model."""

    paths = VLLM_GRPC_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_vllm_grpc(raw)
