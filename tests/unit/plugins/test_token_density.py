"""Tokens per byte, per model and kind of text."""

from __future__ import annotations

import base64
from array import array
from random import Random

import pytest

from app.domain.request import MEDIA_TOKENS
from plugins.shared.token_density import MODELS, Kind, TokenDensity, kind_of
from pointsman.testing import make_request

ENGLISH = "A pointsman sets the switch, so that each train takes the right track. " * 20
RUSSIAN = "Стрелочник переводит стрелку, чтобы каждый поезд шёл по своему пути. " * 20
GREEK = "Ο κλειδούχος γυρίζει το κλειδί ώστε κάθε τρένο να πάρει τη σωστή γραμμή. " * 20
HINDI = "पॉइंट्समैन स्विच सेट करता है ताकि हर ट्रेन सही पटरी पर जाए। " * 20
THAI = "คนสับรางตั้งสวิตช์เพื่อให้รถไฟทุกขบวนไปตามรางที่ถูกต้อง " * 20
CHINESE = "扳道工扳动道岔，使每列火车都走上正确的轨道。" * 20
KOREAN = "전철수는 모든 열차가 올바른 선로로 가도록 전철기를 돌린다. " * 20
GERMAN = "Der Weichenwärter stellt die Weiche, damit jeder Zug das richtige Gleis nimmt. " * 20
JSON = '{"name":"a","address":"10.0.0.1","port":8000,"labels":{"role":"decode"}},' * 20
CODE = "def score(self, request, candidates):\n    return candidates.waiting.max() - candidates.waiting\n" * 10


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ENGLISH, Kind.LATIN), (GERMAN, Kind.LATIN), (JSON, Kind.LATIN), (CODE, Kind.LATIN),
        ("Hello ", Kind.LATIN), ("", Kind.LATIN),
        (RUSSIAN, Kind.TWO_BYTES), (GREEK, Kind.TWO_BYTES),
        (HINDI, Kind.INDIC), (THAI, Kind.INDIC),
        (CHINESE, Kind.EAST_ASIAN), (KOREAN, Kind.EAST_ASIAN),
        (base64.b64encode(Random(1).randbytes(3000)).decode(), Kind.DENSE), (Random(1).randbytes(900).hex(), Kind.DENSE),
    ],
)  # fmt: skip
def test_the_kind_of_a_text(text: str, kind: Kind) -> None:
    assert kind_of(text.encode()) is kind
    assert kind_of(text.encode() * 50) is kind


def test_token_ids_are_a_kind_of_their_own() -> None:
    ids = array("I", [Random(1).randrange(150_000) for _ in range(2000)])
    assert kind_of(ids.tobytes()) is Kind.TOKEN_IDS


def test_a_text_is_assumed_to_have_a_token_in_four_bytes() -> None:
    assert TokenDensity().tokens_per_byte(make_request(ENGLISH)) == pytest.approx(0.25)


@pytest.mark.parametrize("bytes_per_token", [1.4, 2.8, 4.7, 9.3])
def test_what_engines_count_is_learnt(bytes_per_token: float) -> None:
    density, request = TokenDensity(), make_request(HINDI)
    for _ in range(100):
        density.learn(request, round(request.prompt_bytes / bytes_per_token))
    assert 1 / density.tokens_per_byte(request) == pytest.approx(bytes_per_token, rel=0.03)


def test_models_and_kinds_are_learnt_apart() -> None:
    density = TokenDensity()
    for _ in range(100):
        density.learn(make_request(CHINESE, model="a"), len(CHINESE.encode()))
    seen, other_kind, other_model = (
        density.tokens_per_byte(make_request(text, model=model))
        for text, model in ((CHINESE, "a"), (ENGLISH, "a"), (CHINESE, "b"))
    )
    assert (seen, other_kind) == (pytest.approx(1.0, rel=0.03), 0.25)
    assert other_model == pytest.approx(1 / 3.5)


def test_an_image_is_learnt_beside_its_text() -> None:
    density = TokenDensity()
    prompt = ENGLISH.encode() + b"\xff" * (2 * MEDIA_TOKENS * 4)
    request = make_request(prompt, media=2)
    text_tokens = len(ENGLISH) / 4
    for _ in range(300):
        density.learn(request, round(text_tokens + 2 * 1000))
    assert density.tokens_per_byte(request) * len(prompt) == pytest.approx(text_tokens + 2000, rel=0.05)
    assert density.tokens_per_byte(make_request(ENGLISH)) == pytest.approx(0.25)


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_that_can_t_be_is_ignored(count: int) -> None:
    density = TokenDensity()
    density.learn(make_request(ENGLISH), count)
    assert density.tokens_per_byte(make_request(ENGLISH)) == 0.25


def test_the_models_remembered_are_bounded() -> None:
    density = TokenDensity()
    for number in range(2 * MODELS):
        density.tokens_per_byte(make_request(ENGLISH, model=f"m{number}"))
    assert len(density._models) == MODELS
