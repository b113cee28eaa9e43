"""Extension points are recognised by their methods, declarations by their attributes; both are exported."""

from __future__ import annotations

import random

import pytest

from app import extension
from app.extension import (
    Discovery,
    Extractor,
    Filter,
    KnownEngines,
    Lifecycle,
    MetricsSource,
    NeedsFacts,
    OnFinished,
    OnFirstToken,
    OnRefused,
    OnScheduled,
    Picker,
    PrefixShape,
    Producer,
    ProducesFacts,
    ProfilePicker,
    Random,
    RequiresProfiles,
    Scorer,
    ScrapeError,
    SingleProfile,
    WantsFacts,
)
from app.extension.facts import PREFIX_SHAPE
from plugins.profile_pickers.header import HeaderProfileHandler
from plugins.profile_pickers.single import SingleProfileHandler
from plugins.scorers.prefix_cache_scorer import PrefixCacheScorer
from plugins.sources.core_metrics_extractor import CoreMetricsExtractor

POINTS: list[tuple[type, tuple[str, ...]]] = [
    (ProfilePicker, ("pick_profiles", "conclude")),
    (Filter, ("filter",)),
    (Scorer, ("score",)),
    (Picker, ("pick",)),
    (Producer, ("produce",)),
    (OnScheduled, ("on_scheduled",)),
    (OnFirstToken, ("on_first_token",)),
    (OnFinished, ("on_finished",)),
    (OnRefused, ("on_refused",)),
    (Discovery, ("discover", "check")),
    (MetricsSource, ("fetch", "interval")),
    (Extractor, ("extract",)),
    (Lifecycle, ("start", "stop")),
]


@pytest.mark.parametrize(("point", "names"), [pytest.param(*row, id=row[0].__name__) for row in POINTS])
def test_a_class_with_the_methods_implements_that_extension_point_only(point: type, names: tuple[str, ...]) -> None:
    plugin = type("Plugin", (), dict.fromkeys(names, lambda *_: None))()
    assert [kind for kind, _ in POINTS if isinstance(plugin, kind)] == [point]


class NothingDeclared:
    """Declares nothing."""


class Declared:
    """Declares by class attributes and class methods."""

    needs = (PREFIX_SHAPE,)
    wants = ()
    single_profile = False

    @classmethod
    def produces(cls, name: str, params: object) -> tuple[object, ...]:
        return (PREFIX_SHAPE.of(name),)

    @classmethod
    def profile_names(cls, params: object) -> tuple[str, ...]:
        return ("default",)

    @classmethod
    def engines(cls, params: object) -> set[str]:
        return {"mine"}


@pytest.mark.parametrize(
    "declaration", [NeedsFacts, WantsFacts, ProducesFacts, SingleProfile, RequiresProfiles, KnownEngines]
)
def test_a_declaration_is_recognised_on_the_class(declaration: type) -> None:
    assert isinstance(Declared, declaration)
    assert not isinstance(NothingDeclared, declaration)


@pytest.mark.parametrize(
    ("cls", "declaration", "declares"),
    [
        pytest.param(SingleProfileHandler, SingleProfile, True, id="single profile"),
        pytest.param(HeaderProfileHandler, SingleProfile, False, id="several profiles"),
        pytest.param(HeaderProfileHandler, RequiresProfiles, True, id="profiles by name"),
        pytest.param(CoreMetricsExtractor, KnownEngines, True, id="engines"),
        pytest.param(CoreMetricsExtractor, ProducesFacts, True, id="produced facts"),
        pytest.param(PrefixCacheScorer, NeedsFacts, True, id="needed facts"),
        pytest.param(PrefixCacheScorer, WantsFacts, False, id="no wanted facts"),
    ],
)
def test_built_in_classes_declare(cls: type, declaration: type, declares: bool) -> None:
    assert isinstance(cls, declaration) is declares


def test_every_exported_name_exists() -> None:
    assert [name for name in extension.__all__ if not hasattr(extension, name)] == []


@pytest.mark.parametrize("unreachable", [True, False])
def test_a_scrape_error_says_whether_the_endpoint_is_unreachable(unreachable: bool) -> None:
    error = ScrapeError("refused", unreachable=unreachable)
    assert (str(error), error.unreachable) == ("refused", unreachable)


def test_a_request_has_no_blocks_by_default() -> None:
    assert PREFIX_SHAPE.default == PrefixShape(0, 0, ())


def test_python_s_random_is_a_random() -> None:
    source: Random = random.Random(7)
    assert source.randrange(1) == 0
