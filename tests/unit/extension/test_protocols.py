"""Extension points: told apart by their methods, and all of them on offer."""

from __future__ import annotations

import random

import pytest

from app import extension
from app.extension import (
    Discovery,
    Extractor,
    Filter,
    Lifecycle,
    MetricsSource,
    OnFinished,
    OnFirstByte,
    OnRefused,
    OnScheduled,
    Picker,
    PrefixShape,
    Producer,
    ProfilePicker,
    Random,
    Scorer,
    ScrapeError,
)
from app.extension.facts import PREFIX_SHAPE

POINTS: list[tuple[type, tuple[str, ...]]] = [
    (ProfilePicker, ("pick_profiles", "conclude")),
    (Filter, ("filter",)),
    (Scorer, ("score",)),
    (Picker, ("pick",)),
    (Producer, ("produce",)),
    (OnScheduled, ("on_scheduled",)),
    (OnFirstByte, ("on_first_byte",)),
    (OnFinished, ("on_finished",)),
    (OnRefused, ("on_refused",)),
    (Discovery, ("discover", "check")),
    (MetricsSource, ("fetch", "interval")),
    (Extractor, ("extract",)),
    (Lifecycle, ("start", "stop")),
]


@pytest.mark.parametrize(("point", "names"), [pytest.param(*row, id=row[0].__name__) for row in POINTS])
def test_a_class_with_the_methods_is_of_that_kind_only(point: type, names: tuple[str, ...]) -> None:
    made = type("Made", (), dict.fromkeys(names, lambda *_: None))()
    assert [kind for kind, _ in POINTS if isinstance(made, kind)] == [point]


def test_every_name_on_offer_is_there() -> None:
    assert [name for name in extension.__all__ if not hasattr(extension, name)] == []


@pytest.mark.parametrize("unreachable", [True, False])
def test_a_scrape_error_says_whether_nothing_answered(unreachable: bool) -> None:
    error = ScrapeError("refused", unreachable=unreachable)
    assert (str(error), error.unreachable) == ("refused", unreachable)


def test_a_request_was_cut_into_no_blocks_unless_a_producer_says_so() -> None:
    assert PREFIX_SHAPE.default == PrefixShape(0, 0, ())


def test_python_s_own_randomness_fits() -> None:
    source: Random = random.Random(7)
    assert source.randrange(1) == 0
