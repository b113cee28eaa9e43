"""`openai-parser`: the OpenAI API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import OPENAI_PATHS, parse_openai


@plugin("openai-parser")
class OpenAIParser:
    """Reads chat, completions, embeddings, responses, conversations and image generation of the OpenAI API."""

    paths = OPENAI_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_openai(raw)
