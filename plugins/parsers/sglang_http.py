"""`sglanghttp-parser`: parses requests of SGLang's native HTTP API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import SGLANG_PATHS, parse_sglang_generate


@plugin("sglanghttp-parser")
class SglangHttpParser:
    """Parses SGLang's `/generate` requests, with text or token IDs. These requests have no model."""

    paths = SGLANG_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_sglang_generate(raw)
