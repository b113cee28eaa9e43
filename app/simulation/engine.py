"""The simulated engine: continuous batching, a waiting queue, a prefix cache, LoRA slots.

It runs on a clock of its own: `step` does one iteration of the engine and says how long that took. Whoever drives it
lets that time pass, or does not: in virtual time it runs as fast as it can. It draws nothing at random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest

from app.simulation.kv_cache import KvCache

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The simulated hardware. Rates in tokens per second."""

    max_num_seqs: int = 16
    """Sequences in a batch."""
    max_num_batched_tokens: int = 2048
    """Tokens of one iteration: a long prompt is read in several."""
    num_gpu_blocks: int = 4096
    prefill_tokens_per_second: float = 8000.0
    decode_tokens_per_second: float = 60.0
    """Per sequence."""
    max_loras: int = 4
    """LoRA adapters in one batch."""


@dataclass(slots=True, eq=False)
class EngineSequence:
    """One prompt on its way through the engine."""

    tokens: bytes
    """The prompt, four bytes a token."""
    output_tokens: int
    """How many will be generated."""
    adapter: str | None
    chain: Sequence[int]
    """Hashes of the prompt's whole blocks."""
    cached_tokens: int = 0
    """Of the prompt, found in the prefix cache."""
    computed: int = 0
    """Tokens read since it was let in, those found in the cache included."""
    to_read: int = 0
    """Tokens to read before it goes on: the prompt, and what it had said before it gave way."""
    let_in: bool = False
    """Whether it was in the batch before."""
    generated: int = 0
    shared: int = 0
    """Blocks held by name."""
    unnamed: int = 0
    """Blocks held without a name."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, at least one."""
        return max(-(-len(self.tokens) // 4), 1)

    @property
    def finished(self) -> bool:
        """Whether all is generated."""
        return self.generated >= self.output_tokens


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration: how long it took in seconds, and the sequences that got a token."""

    duration: float
    advanced: Sequence[EngineSequence] = ()


@dataclass(slots=True)
class EngineCounters:
    """What the metrics page counts."""

    prefix_queries: int = 0
    """Tokens looked up in the prefix cache."""
    prefix_hits: int = 0
    """Tokens found there."""
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished: int = 0


@dataclass
class Engine:
    """The engine. Call `submit`, then `step` as long as it `has_work`."""

    options: EngineOptions = field(default_factory=EngineOptions)
    now: float = 0.0
    """Seconds of the engine's own clock."""

    def __post_init__(self) -> None:
        self.cache = KvCache(self.options.num_gpu_blocks)
        self.waiting: deque[EngineSequence] = deque()
        self.running: list[EngineSequence] = []
        self.counters = EngineCounters()

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.waiting or self.running)

    @property
    def running_adapters(self) -> frozenset[str]:
        """LoRA adapters in the batch."""
        return frozenset(seq.adapter for seq in self.running if seq.adapter)

    @property
    def waiting_adapters(self) -> frozenset[str]:
        """LoRA adapters of the sequences that wait."""
        return frozenset(seq.adapter for seq in self.waiting if seq.adapter)

    def submit(
        self, tokens: bytes, *, output_tokens: int, seed: bytes = b"", adapter: str | None = None
    ) -> EngineSequence:
        """Queues a prompt. `seed` keeps prompts apart that must not share cached blocks.

        Raises `ValueError` when prompt and output can't fit in the KV cache, or no adapter fits in a batch.
        """
        if adapter and not self.options.max_loras:
            raise ValueError("this engine has no room for LoRA adapters")
        sequence = EngineSequence(tokens, output_tokens, adapter, _chain(tokens, repr((seed, adapter)).encode()))
        blocks = -(-(sequence.prompt_tokens + output_tokens) // BLOCK_TOKENS)
        if blocks > self.options.num_gpu_blocks:
            message = f"prompt and output need {blocks} blocks, and the KV cache has {self.options.num_gpu_blocks}"
            raise ValueError(message)
        self.waiting.append(sequence)
        return sequence

    def abort(self, sequence: EngineSequence) -> None:
        """Drops a sequence, wherever it is."""
        if sequence in self.running:
            self.running.remove(sequence)
            self._release(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def step(self) -> Step:
        """One iteration: lets sequences in, reads on in prompts, gives every other one a token."""
        self._let_in()
        decoding = [seq for seq in self.running if seq.computed >= seq.to_read]
        decoding = [seq for seq in decoding if self._room_for_next_token(seq)]
        budget = max(self.options.max_num_batched_tokens - len(decoding), 0)
        read, begun = self._prefill(budget)
        advanced = [*(seq for seq in decoding if seq in self.running), *begun]
        for sequence in advanced:
            sequence.generated += 1
            self.counters.generation_tokens += 1
            if sequence.finished:
                self.running.remove(sequence)
                self.counters.finished += 1
                self._release(sequence)
        duration = read / self.options.prefill_tokens_per_second
        if decoding:
            duration += 1 / self.options.decode_tokens_per_second
        self.now += duration
        return Step(duration, advanced)

    def _let_in(self) -> None:
        while self.waiting and len(self.running) < self.options.max_num_seqs:
            sequence = self.waiting[0]
            if not self._has_lora_slot(sequence) or not self._allocate(sequence):
                return
            self.running.append(self.waiting.popleft())

    def _has_lora_slot(self, sequence: EngineSequence) -> bool:
        active = self.running_adapters
        return not sequence.adapter or sequence.adapter in active or len(active) < self.options.max_loras

    def _allocate(self, sequence: EngineSequence) -> bool:
        """Blocks for all it has so far: those in the cache are shared, the others taken."""
        to_read = sequence.prompt_tokens + sequence.generated
        usable = (to_read - 1) // BLOCK_TOKENS  # the last token must be computed to get an output
        hits = min(self.cache.match(sequence.chain), usable)
        needed = -(-to_read // BLOCK_TOKENS) - hits
        self.cache.use(sequence.chain[:hits])
        if not self.cache.take(needed):
            self.cache.release(sequence.chain[:hits], 0)
            return False
        sequence.shared, sequence.unnamed = hits, needed
        sequence.computed, sequence.to_read = hits * BLOCK_TOKENS, to_read
        if not sequence.let_in:
            sequence.let_in = True
            sequence.cached_tokens = sequence.computed
            self.counters.prefix_queries += sequence.prompt_tokens
            self.counters.prefix_hits += sequence.cached_tokens
            self.counters.prompt_tokens += sequence.prompt_tokens
        return True

    def _prefill(self, budget: int) -> tuple[int, list[EngineSequence]]:
        """Reads prompts, the oldest first. Returns tokens read, and the sequences whose prompt is read to its end."""
        read, begun = 0, []
        for sequence in self.running:
            left = sequence.to_read - sequence.computed
            piece = min(left, budget - read)
            if piece <= 0:
                continue
            sequence.computed += piece
            read += piece
            if sequence.computed == sequence.to_read:
                self._name_blocks(sequence)
                begun.append(sequence)
        return read, begun

    def _name_blocks(self, sequence: EngineSequence) -> None:
        fresh = sequence.chain[sequence.shared :]
        self.cache.name(fresh)
        sequence.shared += len(fresh)
        sequence.unnamed -= len(fresh)

    def _room_for_next_token(self, sequence: EngineSequence) -> bool:
        """A block for the next token where one is due. Without any left the youngest sequence gives way."""
        if sequence not in self.running:
            return False
        held = (sequence.shared + sequence.unnamed) * BLOCK_TOKENS
        if sequence.prompt_tokens + sequence.generated < held:
            return True
        while not self.cache.take(1):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        sequence.unnamed += 1
        return True

    def _preempt(self, sequence: EngineSequence) -> None:
        """Back to the queue's head; its tokens will be computed anew, what it has said stays said."""
        self.running.remove(sequence)
        self._release(sequence)
        sequence.computed = 0
        self.waiting.appendleft(sequence)
        self.counters.preemptions += 1

    def _release(self, sequence: EngineSequence) -> None:
        self.cache.release(sequence.chain[: sequence.shared], sequence.unnamed)
        sequence.shared = sequence.unnamed = 0


def _chain(tokens: bytes, seed: bytes) -> Sequence[int]:
    """A hash per whole block, each seeded with the one before."""
    size = BLOCK_TOKENS * 4
    block = xxh3_64_intdigest(seed)
    ends = range(size, len(tokens) + 1, size)
    return [block := xxh3_64_intdigest(tokens[end - size : end], block) for end in ends]
