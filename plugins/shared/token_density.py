"""How many tokens a prompt has, learnt from the counts that engines report, per model and kind of text.

Tokenizers differ: four to five bytes of English are a token, but so are three bytes of Hindi under one tokenizer and
nine under another, and one and a half of base64.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from enum import IntEnum

from pointsman import BYTES_PER_TOKEN, MEDIA_TOKENS, InferenceRequest

SAMPLE = 128
"""Bytes of a prompt that are looked at, spread over its length."""

BEGINNING = 2048
"""Bytes in which spaces are looked for first: most prompts are plain text."""

SPACES = 25
"""Text has at least one space, punctuation mark or line end in so many bytes."""

MEMORY = 0.98
"""Weight of all earlier requests against the next one, so that the last fifty count."""

PRIOR_TOKENS = 200.0
"""Weight of the values assumed at first, in tokens."""

MODELS = 256
"""Models remembered; their names come from clients, so their number is bounded."""


class Kind(IntEnum):
    """What a text consists of, as far as it matters to a tokenizer."""

    LATIN = 0
    """Also code and JSON."""
    DENSE = 1
    """Letters and digits without spaces: base64, hexadecimal numbers."""
    TWO_BYTES = 2
    """Scripts of two bytes a letter: Cyrillic, Greek, Arabic, Hebrew."""
    INDIC = 3
    """Also Thai."""
    EAST_ASIAN = 4
    TOKEN_IDS = 5


_ASSUMED = {
    Kind.LATIN: float(BYTES_PER_TOKEN), Kind.DENSE: 1.4, Kind.TWO_BYTES: 5.0, Kind.INDIC: 4.0, Kind.EAST_ASIAN: 3.5,
    Kind.TOKEN_IDS: float(BYTES_PER_TOKEN),
}  # fmt: skip
"""Bytes per token before anything is learnt: means over four public tokenizers."""

_OTHER, _WORD, _ZERO, _TWO, _INDIC, _EAST_ASIAN, _REST = b" a0cik."

_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=_-")

_FIRST_BYTES = {_REST: 0x80, _TWO: 0xCC, _INDIC: 0xE0, _EAST_ASIAN: 0xE2}
"""The least first byte of a UTF-8 character of each class."""


def _class_of(byte: int) -> int:
    if byte < _FIRST_BYTES[_REST]:
        return _ZERO if byte == 0 else _WORD if byte in _WORD_BYTES else _OTHER
    return max((least, found) for found, least in _FIRST_BYTES.items() if byte >= least)[1]


_CLASSES = bytes(map(_class_of, range(256)))


def kind_of(prompt: bytes) -> Kind:
    """The kind of most of a text."""
    if prompt.isascii() and SPACES * prompt.count(b" ", 0, BEGINNING) >= min(len(prompt), BEGINNING):
        return Kind.LATIN
    step = 6 * (len(prompt) // (6 * SAMPLE)) + 1  # has no factor in common with the length of a character
    sample = prompt[::step].translate(_CLASSES)
    size = len(sample)
    if 4 * sample.count(_ZERO) > size:
        return Kind.TOKEN_IDS
    scripts = (sample.count(_TWO), sample.count(_INDIC), sample.count(_EAST_ASIAN))
    most = max(scripts)
    if 10 * most > size:
        return _SCRIPTS[scripts.index(most)]
    return Kind.DENSE if SPACES * sample.count(_OTHER) < size >= SAMPLE // 4 else Kind.LATIN


_SCRIPTS = (Kind.TWO_BYTES, Kind.INDIC, Kind.EAST_ASIAN)


class _Ratio:
    """A decaying mean of a ratio."""

    __slots__ = ("amount", "tokens", "tokens_each")

    def __init__(self, amount_per_token: float) -> None:
        self.tokens = PRIOR_TOKENS
        self.amount = PRIOR_TOKENS * amount_per_token
        self.tokens_each = 1.0 / amount_per_token

    def learn(self, amount: float, tokens: float) -> None:
        """`amount` was `tokens` tokens."""
        self.amount = self.amount * MEMORY + amount
        self.tokens = self.tokens * MEMORY + tokens
        self.tokens_each = self.tokens / self.amount


class _Model:
    """What is known of one model's tokenizer."""

    def __init__(self) -> None:
        self.texts: Mapping[Kind, _Ratio] = {kind: _Ratio(each) for kind, each in _ASSUMED.items()}
        self.media = _Ratio(1.0 / MEDIA_TOKENS)


class TokenDensity:
    """Tokens per byte of prompts."""

    def __init__(self) -> None:
        self._models: OrderedDict[str, _Model] = OrderedDict()

    def tokens_per_byte(self, request: InferenceRequest) -> float:
        """Mean over all prompts of `request`, media included."""
        model = self._model(request.model)
        per_byte = model.texts[_kind(request)].tokens_each
        if not request.media:
            return per_byte
        total = max(request.prompt_bytes, 1)
        return (_text_bytes(request) * per_byte + request.media * model.media.tokens_each) / total

    def learn(self, request: InferenceRequest, prompt_tokens: int) -> None:
        """The engine counted `prompt_tokens` tokens in the prompts of `request`."""
        text = _text_bytes(request)
        if prompt_tokens <= 0 or request.prompt_bytes <= 0:
            return
        model = self._model(request.model)
        ratio = model.texts[_kind(request)]
        if request.media:
            model.media.learn(request.media, max(prompt_tokens - text * ratio.tokens_each, 1.0))
        else:
            ratio.learn(text, prompt_tokens)

    def _model(self, name: str) -> _Model:
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = _Model()
            if len(self._models) > MODELS:
                self._models.popitem(last=False)
        return model


def _kind(request: InferenceRequest) -> Kind:
    return kind_of(request.prompts[0]) if request.prompts else Kind.LATIN


def _text_bytes(request: InferenceRequest) -> int:
    return max(request.prompt_bytes - request.media * MEDIA_TOKENS * BYTES_PER_TOKEN, 0)
