"""`vllmhttp-parser`: vLLM's own HTTP API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import VLLM_PATHS, parse_vllm_generate


@plugin("vllmhttp-parser")
class VllmHttpParser:
    """Reads `/inference/v1/generate`, by which vLLM takes token ids."""

    paths = VLLM_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_vllm_generate(raw)
