"""The request as plugins see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from app.domain.facts import NO_FACTS, Facts

BYTES_PER_TOKEN = 4
"""No tokenizer is used: a token is taken to be four bytes of UTF-8."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it came, before anything of its body is understood."""

    id: str
    path: str
    """Without the query."""
    body: bytes
    """Decompressed."""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """Lower-case names; of a repeated header the values joined by a comma."""
    size: int = 0
    """Bytes of the body as it came."""

    def parsed(self, **fields: Any) -> InferenceRequest:
        """The request with what a parser found: `fields` of `InferenceRequest` besides these."""
        return InferenceRequest(self.id, self.path, self.method, headers=self.headers, size=self.size, **fields)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request for inference, parsed and unchanged ever after.

    `prompts` are the bytes that the engine's prefix cache would key on, one entry per independent prompt, in
    the order the engine reads them: tool definitions, then each message's role and content, an image as its
    digest; token ids as four bytes each. It is empty where the body was not understood or has no prompt.
    """

    id: str
    path: str
    method: str = "POST"
    model: str = ""
    """The model asked for; with LoRA the adapter's name. Empty when the body names none."""
    adapter: str | None = None
    """A LoRA adapter named beside the model (SGLang's `lora_path`)."""
    cache_salt: str | None = None
    prompts: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """Lower-case names; of a repeated header the values joined by a comma."""
    streaming: bool = False
    max_output_tokens: int | None = None
    size: int = 0
    """Bytes of the body as it came."""
    facts: Facts = field(default=NO_FACTS)

    @property
    def prompt_bytes(self) -> int:
        """Bytes of all prompts."""
        return sum(map(len, self.prompts))

    @property
    def prompt_tokens(self) -> int:
        """Estimated tokens of all prompts, each rounded up."""
        return sum(-(-len(prompt) // BYTES_PER_TOKEN) for prompt in self.prompts)

    def with_facts(self, facts: Facts) -> InferenceRequest:
        """This request with `facts` in place of its own."""
        return InferenceRequest(  # `replace` would take twice as long, and every request comes by here
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
            facts,
        )
