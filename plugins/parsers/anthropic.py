"""`anthropic-parser`: parses requests of the Anthropic API."""

from __future__ import annotations

from pointsman import InferenceRequest, RawRequest, plugin
from pointsman.parsing import MESSAGES_PATHS, parse_messages


@plugin("anthropic-parser")
class AnthropicParser:
    """Parses Anthropic API requests: messages and token counting."""

    paths = MESSAGES_PATHS

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError`."""
        return parse_messages(raw)
