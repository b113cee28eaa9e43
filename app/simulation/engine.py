"""The simulated engine: continuous batching, a waiting queue, a prefix cache, LoRA slots.

It runs in virtual time: `step` runs one iteration and returns its duration, which the caller may wait for or skip. The
engine is deterministic. `fast_forward` runs many iterations at once while nothing but decoding happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest

from app.simulation.kv_cache import KvCache
from app.simulation.sequences import EngineCounters, EngineSequence, Step

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The simulated hardware."""

    max_num_seqs: int = 16
    """Maximum number of sequences in a batch."""
    max_num_batched_tokens: int = 2048
    """Maximum number of tokens in an iteration. Longer prompts take several iterations."""
    num_gpu_blocks: int = 4096
    prefill_tokens_per_second: float = 8000.0
    decode_tokens_per_second: float = 60.0
    """Of a sequence that is alone in the batch."""
    decode_slowdown: float = 0.0
    """Share by which each further decoding sequence lengthens an iteration."""
    max_loras: int = 4
    """Maximum number of LoRA adapters in a batch."""


@dataclass
class Engine:
    """The engine. Call `submit`, then `step` while `has_work`."""

    options: EngineOptions = field(default_factory=EngineOptions)
    now: float = 0.0
    """Virtual time in seconds."""

    def __post_init__(self) -> None:
        self.cache = KvCache(self.options.num_gpu_blocks)
        self.waiting: deque[EngineSequence] = deque()
        self.running: list[EngineSequence] = []
        self.counters = EngineCounters()

    @property
    def has_work(self) -> bool:
        """Whether any sequence is waiting or running."""
        return bool(self.waiting or self.running)

    @property
    def running_adapters(self) -> frozenset[str]:
        """LoRA adapters in the batch."""
        return frozenset(seq.adapter for seq in self.running if seq.adapter)

    @property
    def waiting_adapters(self) -> frozenset[str]:
        """LoRA adapters of the waiting sequences."""
        return frozenset(seq.adapter for seq in self.waiting if seq.adapter)

    def submit(
        self, tokens: bytes, *, output_tokens: int, seed: bytes = b"", adapter: str | None = None
    ) -> EngineSequence:
        """Queues a prompt. Prompts with different `seed` share no cached blocks.

        Raises `ValueError` if prompt and output can't fit in the KV cache, or if LoRA is disabled but an adapter given.
        """
        chain = _chain(tokens, repr((seed, adapter)).encode())
        return self.submit_hashed(max(-(-len(tokens) // 4), 1), chain, output_tokens=output_tokens, adapter=adapter)

    def submit_hashed(
        self, prompt_tokens: int, chain: Sequence[int], *, output_tokens: int, adapter: str | None = None
    ) -> EngineSequence:
        """As `submit`, for a prompt that is known by the hashes of its complete blocks only."""
        if adapter and not self.options.max_loras:
            raise ValueError("this engine does not support LoRA adapters")
        sequence = EngineSequence(prompt_tokens, output_tokens, adapter, chain)
        blocks = -(-(prompt_tokens + output_tokens) // BLOCK_TOKENS)
        if blocks > self.options.num_gpu_blocks:
            message = f"prompt and output need {blocks} blocks, but the KV cache has {self.options.num_gpu_blocks}"
            raise ValueError(message)
        self.waiting.append(sequence)
        return sequence

    def abort(self, sequence: EngineSequence) -> None:
        """Removes a sequence, running or waiting."""
        if sequence.running:
            self._leave_batch(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def step(self) -> Step:
        """Runs one iteration: schedules waiting sequences, continues prefills, and decodes one token of the others."""
        decoding = [seq for seq in self.running if seq.computed >= seq.to_compute]
        decoding = [seq for seq in decoding if self._room_for_next_token(seq)]
        budget = max(self.options.max_num_batched_tokens - len(decoding), 0)
        prefilled, started = self._prefill(budget)
        advanced = [*(seq for seq in decoding if seq.running), *started]
        for sequence in advanced:
            self._advance(sequence, 1)
        duration = prefilled / self.options.prefill_tokens_per_second
        if decoding:
            duration += self._decode_time(len(decoding))
        self.now += duration
        return Step(duration, advanced)

    def fast_forward(self, until: float) -> Step | None:
        """Runs the iterations that begin before `until` at once, as far as they only decode and no sequence finishes.

        None if the next iteration does more, or one would have to preempt; then call `step`.
        """
        running = self.running
        if self.waiting or not running or any(seq.computed < seq.to_compute for seq in running):
            return None
        time = self._decode_time(len(running))
        count = min(seq.output_tokens - seq.generated for seq in running)
        if until - self.now < count * time:
            count = int((until - self.now) / time) + 1
        needed = [self._blocks_for(seq, count) for seq in running]
        if count == 1 or sum(needed) > self.cache.available:
            return None
        self.cache.allocate(sum(needed))
        step = Step(count * time, tuple(running))
        for sequence, blocks in zip(step.advanced, needed, strict=True):
            sequence.unhashed_blocks += blocks
            self._advance(sequence, count)
        self.now += step.duration
        return step

    def _blocks_for(self, sequence: EngineSequence, tokens: int) -> int:
        """Blocks that a decoding sequence lacks for its next `tokens` tokens."""
        last_block = (sequence.prompt_tokens + sequence.generated + tokens - 1) // BLOCK_TOKENS
        return max(last_block + 1 - sequence.hashed_blocks - sequence.unhashed_blocks, 0)

    def _decode_time(self, batch: int) -> float:
        """Seconds of an iteration that decodes `batch` tokens."""
        return (1 + self.options.decode_slowdown * (batch - 1)) / self.options.decode_tokens_per_second

    def _advance(self, sequence: EngineSequence, tokens: int) -> None:
        sequence.generated += tokens
        self.counters.generation_tokens += tokens
        if sequence.finished:
            self._leave_batch(sequence)
            self.counters.finished += 1

    def _leave_batch(self, sequence: EngineSequence) -> None:
        sequence.running = False
        self.running.remove(sequence)
        self._release(sequence)

    def _admit(self) -> EngineSequence | None:
        """Moves the head of the queue to the batch; None if it has to wait."""
        if not self.waiting or len(self.running) >= self.options.max_num_seqs:
            return None
        sequence = self.waiting[0]
        if not self._has_lora_slot(sequence) or not self._allocate(sequence):
            return None
        sequence.running = True
        self.running.append(self.waiting.popleft())
        return sequence

    def _has_lora_slot(self, sequence: EngineSequence) -> bool:
        active = self.running_adapters
        return not sequence.adapter or sequence.adapter in active or len(active) < self.options.max_loras

    def _allocate(self, sequence: EngineSequence) -> bool:
        """Allocates blocks for all tokens of the sequence, sharing cached ones. False if there are not enough."""
        to_compute = sequence.prompt_tokens + sequence.generated
        usable = (to_compute - 1) // BLOCK_TOKENS  # the last token must be computed to produce output
        hits = min(self.cache.match(sequence.chain), usable)
        needed = -(-to_compute // BLOCK_TOKENS) - hits
        self.cache.share(sequence.chain[:hits])
        if not self.cache.allocate(needed):
            self.cache.release(sequence.chain[:hits], 0)
            return False
        sequence.hashed_blocks, sequence.unhashed_blocks = hits, needed
        sequence.computed, sequence.to_compute = hits * BLOCK_TOKENS, to_compute
        if not sequence.scheduled:
            sequence.scheduled = True
            sequence.cached_tokens = sequence.computed
            self.counters.prefix_queries += sequence.prompt_tokens
            self.counters.prefix_hits += sequence.cached_tokens
            self.counters.prompt_tokens += sequence.prompt_tokens
        return True

    def _prefill(self, budget: int) -> tuple[int, list[EngineSequence]]:
        """Prefills prompts, oldest first, and admits waiting ones while the budget of tokens lasts. Returns the number
        of tokens computed and the sequences now prefilled."""
        left, started = budget, []
        prefilling = deque(seq for seq in self.running if seq.computed < seq.to_compute)
        while left:
            sequence = prefilling.popleft() if prefilling else self._admit()
            if sequence is None:
                break
            chunk = min(sequence.to_compute - sequence.computed, left)
            sequence.computed += chunk
            left -= chunk
            if sequence.computed == sequence.to_compute:
                self._hash_blocks(sequence)
                started.append(sequence)
        return budget - left, started

    def _hash_blocks(self, sequence: EngineSequence) -> None:
        fresh = sequence.chain[sequence.hashed_blocks :]
        self.cache.set_hashes(fresh)
        sequence.hashed_blocks += len(fresh)
        sequence.unhashed_blocks -= len(fresh)

    def _room_for_next_token(self, sequence: EngineSequence) -> bool:
        """Allocates a block for the next token if needed, preempting the youngest sequences. False if preempted."""
        if not sequence.running:
            return False
        held = (sequence.hashed_blocks + sequence.unhashed_blocks) * BLOCK_TOKENS
        if sequence.prompt_tokens + sequence.generated < held:
            return True
        while not self.cache.allocate(1):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        sequence.unhashed_blocks += 1
        return True

    def _preempt(self, sequence: EngineSequence) -> None:
        """Moves a sequence to the head of the queue. Its tokens are recomputed; those generated are kept."""
        self._leave_batch(sequence)
        sequence.computed = 0
        self.waiting.appendleft(sequence)
        self.counters.preemptions += 1

    def _release(self, sequence: EngineSequence) -> None:
        self.cache.release(sequence.chain[: sequence.hashed_blocks], sequence.unhashed_blocks)
        sequence.hashed_blocks = sequence.unhashed_blocks = 0


def _chain(tokens: bytes, seed: bytes) -> Sequence[int]:
    """One hash per complete block, each seeded with the previous one."""
    size = BLOCK_TOKENS * 4
    block = xxh3_64_intdigest(seed)
    ends = range(size, len(tokens) + 1, size)
    return [block := xxh3_64_intdigest(tokens[end - size : end], block) for end in ends]
