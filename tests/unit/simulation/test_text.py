"""What the simulated engine says."""

from __future__ import annotations

from app.simulation.text import WORDS, natural_length, word


def test_an_answer_is_the_same_for_the_same_key() -> None:
    assert [word(5, index) for index in range(20)] == [word(5, index) for index in range(20)]


def test_other_keys_say_other_things() -> None:
    assert [word(5, index) for index in range(20)] != [word(6, index) for index in range(20)]


def test_words_are_joined_by_spaces() -> None:
    said = "".join(word(5, index) for index in range(20))
    assert [part in WORDS for part in said.split(" ")] == [True] * 20


def test_answers_have_16_to_63_tokens() -> None:
    assert {natural_length(key) for key in range(1000)} == set(range(16, 64))
