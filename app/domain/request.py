"""Requests before and after parsing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from app.domain.facts import NO_FACTS, Facts

BYTES_PER_TOKEN = 4
"""Estimate used instead of a tokenizer: a token is four bytes of UTF-8."""

MEDIA_TOKENS = 256
"""Estimated tokens of an image, clip or file. Engines use some hundreds for each."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as received, before its body is parsed."""

    id: str
    path: str
    """Without the query."""
    body: bytes
    """After decompression."""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """Names in lower case; the values of a repeated header are joined by commas."""
    size: int = 0
    """Size of the body in bytes as received, before decompression."""

    def parsed(self, **fields: Any) -> InferenceRequest:
        """The parsed request. `fields` are the fields of `InferenceRequest` that a raw request doesn't have."""
        return InferenceRequest(self.id, self.path, self.method, headers=self.headers, size=self.size, **fields)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A parsed inference request. Immutable.

    `prompts` holds, for each independent prompt, the bytes that the engine's prefix cache depends on, in the order
    in which the engine reads them: tool definitions, then role and content of each message, with a digest for each
    image; token ids take four bytes each. It is empty if the body was not parsed or has no prompt.
    """

    id: str
    path: str
    method: str = "POST"
    model: str = ""
    """The requested model, or the name of a LoRA adapter. Empty if the body names none."""
    adapter: str | None = None
    """A LoRA adapter requested in addition to the model (SGLang's `lora_path`)."""
    cache_salt: str | None = None
    prompts: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """Names in lower case; the values of a repeated header are joined by commas."""
    streaming: bool = False
    max_output_tokens: int | None = None
    size: int = 0
    """Size of the body in bytes as received, before decompression."""
    media: int = 0
    """Images, clips and files in the prompts; each takes `MEDIA_TOKENS * BYTES_PER_TOKEN` bytes of them."""
    facts: Facts = field(default=NO_FACTS)

    @property
    def prompt_bytes(self) -> int:
        """Total size of the prompts in bytes."""
        prompts = self.prompts
        return len(prompts[0]) if len(prompts) == 1 else sum(map(len, prompts))

    @property
    def prompt_tokens(self) -> int:
        """Estimated number of tokens in all prompts, rounded up for each."""
        return sum(-(-len(prompt) // BYTES_PER_TOKEN) for prompt in self.prompts)

    def with_facts(self, facts: Facts) -> InferenceRequest:
        """A copy with `facts` instead of its own."""
        return InferenceRequest(  # called for every request; `replace` takes twice as long
            self.id,
            self.path,
            self.method,
            self.model,
            self.adapter,
            self.cache_salt,
            self.prompts,
            self.headers,
            self.streaming,
            self.max_output_tokens,
            self.size,
            self.media,
            facts,
        )
