"""`vertexai-parser`: parses requests of Vertex AI's gRPC service."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import VERTEX_PATHS, parse_vertex


@plugin("vertexai-parser")
class VertexAIParser:
    """Parses chat completions and raw predictions of Vertex AI's prediction service, which wrap OpenAI API bodies."""

    paths = VERTEX_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_vertex(raw)
