"""`vllmhttp-parser`: parses requests of vLLM's native HTTP API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import VLLM_PATHS, parse_vllm_generate


@plugin("vllmhttp-parser")
class VllmHttpParser:
    """Parses `/inference/v1/generate` requests, with which vLLM takes token IDs."""

    paths = VLLM_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_vllm_generate(raw)
