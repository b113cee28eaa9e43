"""`sglanghttp-parser`: SGLang's own HTTP API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import SGLANG_PATHS, parse_sglang_generate


@plugin("sglanghttp-parser")
class SglangHttpParser:
    """Reads `/generate` of SGLang: text or token ids. Such requests name no model."""

    paths = SGLANG_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_sglang_generate(raw)
