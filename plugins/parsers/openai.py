"""`openai-parser`: parses requests of the OpenAI API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import OPENAI_PATHS, parse_openai


@plugin("openai-parser")
class OpenAIParser:
    """Parses OpenAI API requests: chat completions, completions, embeddings, responses, conversations and images."""

    paths = OPENAI_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_openai(raw)
