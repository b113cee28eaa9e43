"""The catalogue: where plugin types come from, and why one can't be loaded."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import app.catalogue.catalogue as module
import plugins
from app.catalogue.catalogue import Catalogue, NoParams, describe
from app.catalogue.loading import PluginTypeError
from app.extension import (
    PREFIX_HITS,
    PREFIX_SHAPE,
    Clock,
    Discovery,
    Extractor,
    Filter,
    HttpClient,
    Lifecycle,
    MetricsSource,
    OnScheduled,
    Picker,
    PluginName,
    Producer,
    ProfilePicker,
    Random,
    Scorer,
)
from plugins.scorers.queue import QueueScorer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Write = Callable[[str], Path]

SCORER = """
    class Mine:
        def score(self, request, candidates):
            return [1.0] * len(candidates)
"""


@pytest.fixture
def catalogue() -> Catalogue:
    """A fresh one."""
    return Catalogue(plugins)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module `my_plugins` that can be imported and read as a file."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def written(source: str) -> Path:
        path = tmp_path / "my_plugins.py"
        path.write_text(dedent(source))
        return path

    yield written
    for name in set(sys.modules) - before:
        if name.startswith(("my_plugins", "pointsman_file_")):
            del sys.modules[name]


def fails(catalogue: Catalogue, name: str) -> PluginTypeError:
    with pytest.raises(PluginTypeError) as caught:
        catalogue.find(name)
    return caught.value


@pytest.mark.parametrize(
    ("name", "points"),
    [
        pytest.param("queue-scorer", {Scorer}, id="scorer"),
        pytest.param("decode-filter", {Filter}, id="filter"),
        pytest.param("max-score-picker", {Picker}, id="picker"),
        pytest.param("single-profile-handler", {ProfilePicker}, id="profile picker"),
        pytest.param("approx-prefix-cache-producer", {Producer, OnScheduled}, id="producer that learns from picks"),
        pytest.param("inflight-load-producer", {Producer, Lifecycle}, id="producer that counts"),
        pytest.param("file-discovery", {Discovery}, id="discovery"),
        pytest.param("metrics-data-source", {MetricsSource}, id="source"),
        pytest.param("core-metrics-extractor", {Extractor}, id="extractor"),
    ],
)
def test_a_built_in_type_is_found_with_its_extension_points(catalogue: Catalogue, name: str, points: set[type]) -> None:
    found = catalogue.find(name)
    assert (found.mark.type, found.extension_points) == (name, points)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("server-queue-length", "queue-scorer"),
        ("kv-cache-util", "kv-cache-utilization-scorer"),
        ("by-label-selector", "label-selector-filter"),
        ("decode-endpoints", "decode-filter"),
        ("prefill-endpoints", "prefill-filter"),
        ("multicluster-approx-prefix-cache-producer", "approx-prefix-cache-producer"),
    ],
)
def test_an_alias_leads_to_the_same_type(catalogue: Catalogue, alias: str, name: str) -> None:
    assert catalogue.find(alias) is catalogue.find(name)


def test_services_are_found_by_their_annotations(catalogue: Catalogue) -> None:
    found = [
        catalogue.find(name) for name in ("approx-prefix-cache-producer", "max-score-picker", "metrics-data-source")
    ]
    assert [dict(kind.services) for kind in found] == [
        {"name": PluginName, "clock": Clock}, {"random": Random}, {"http": HttpClient}
    ]  # fmt: skip
    assert {kind.params_argument for kind in found} == {"params"}


def test_a_type_without_a_constructor_takes_nothing(catalogue: Catalogue, write: Write) -> None:
    write(SCORER)
    found = catalogue.find("my_plugins:Mine")
    assert (found.params, found.params_argument, dict(found.services)) == (NoParams, None, {})


def test_needs_and_wants_follow_the_parameters(catalogue: Catalogue) -> None:
    scorer, load = catalogue.find("prefix-cache-scorer"), catalogue.find("inflight-load-producer")
    params = scorer.params.model_validate({"prefixMatchInfoProducerName": "mine"})
    assert scorer.needs(params) == (PREFIX_HITS.of("mine"), PREFIX_SHAPE.of("mine"))
    assert load.wants(load.params()) == (PREFIX_HITS, PREFIX_SHAPE)


def test_a_type_that_declares_no_facts_has_none(catalogue: Catalogue) -> None:
    found = catalogue.find("random-picker")
    params = found.params()
    assert (found.needs(params), found.wants(params), found.produces("x", params)) == ((), (), ())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("que-scorer", "did you mean 'queue-scorer'?", id="misspelt"),
        pytest.param("Queue-Scorer", "did you mean 'queue-scorer'?", id="in capitals"),
        pytest.param("qqqqqq", "known: ", id="like nothing"),
        pytest.param("", "known: ", id="empty"),
    ],
)
def test_an_unknown_type_is_an_error_with_a_hint(catalogue: Catalogue, name: str, hint: str) -> None:
    error = fails(catalogue, name)
    assert (repr(name) in str(error), hint in error.hint) == (True, True)


def test_the_parameters_of_an_unknown_type_are_not_known(catalogue: Catalogue) -> None:
    assert catalogue.params_model("no-such-type") is None
    assert catalogue.params_model("random-picker") is catalogue.find("random-picker").params


def test_two_built_in_types_of_one_name_are_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = describe(QueueScorer, "x:QueueScorer")
    monkeypatch.setattr(module, "_classes_below", lambda _: iter([twice, twice]))
    with pytest.raises(RuntimeError, match="two plugins are named 'queue-scorer'"):
        module._types_below.__wrapped__(plugins)


# -- classes at an address


def test_a_class_in_a_module_is_found(catalogue: Catalogue, write: Write) -> None:
    write(SCORER)
    found = catalogue.find("my_plugins:Mine")
    assert (found.mark.type, found.extension_points, found.cls.__module__) == (
        "my_plugins:Mine",
        {Scorer},
        "my_plugins",
    )


def test_a_class_in_a_file_is_found(catalogue: Catalogue, write: Write) -> None:
    found = catalogue.find(f"{write(SCORER)}:Mine")
    assert found.serves(Scorer)


def test_a_marked_class_keeps_its_name_at_an_address(catalogue: Catalogue) -> None:
    assert catalogue.find("plugins.scorers.queue:QueueScorer").mark.type == "queue-scorer"


@pytest.mark.parametrize(
    "address", [pytest.param("my_plugins:Mine", id="module"), pytest.param("{path}:Mine", id="file")]
)
def test_one_address_leads_to_one_type(catalogue: Catalogue, write: Write, address: str) -> None:
    name = address.format(path=write(SCORER))
    assert catalogue.find(name) is catalogue.find(name)


def test_a_changed_file_is_read_anew(catalogue: Catalogue, write: Write) -> None:
    import os  # noqa: PLC0415 - only here

    path = write(SCORER)
    old = catalogue.find(f"{path}:Mine")
    write(SCORER.replace("score", "pick"))
    os.utime(path, ns=(1, 1))
    assert (old.serves(Scorer), catalogue.find(f"{path}:Mine").serves(Picker)) == (True, True)


def test_nested_parameters_and_postponed_annotations_are_resolved(catalogue: Catalogue, write: Write) -> None:
    write("""
        from __future__ import annotations
        from pointsman import Clock, PluginParams

        class Mine:
            class Params(PluginParams):
                weight: float = 1.0

            def __init__(self, settings: Params, clock: Clock, extra: int = 3, *rest: int, **more: int) -> None: ...

            def score(self, request, candidates): ...
    """)
    found = catalogue.find("my_plugins:Mine")
    assert (found.params is found.cls.Params, found.params_argument) == (True, "settings")
    assert dict(found.services) == {"clock": Clock}


def test_a_mark_is_not_inherited(catalogue: Catalogue, write: Write) -> None:
    write("""
        from plugins.scorers.queue import QueueScorer

        class Mine(QueueScorer):
            pass
    """)
    found = catalogue.find("my_plugins:Mine")
    assert (found.mark.type, found.params) == ("my_plugins:Mine", QueueScorer.Params)


def test_a_class_with_a_lifecycle_and_a_scorer_serves_both(catalogue: Catalogue, write: Write) -> None:
    write(SCORER + "\n    async def start(self): ...\n    async def stop(self): ...\n".replace("\n", "\n    "))
    assert catalogue.find("my_plugins:Mine").extension_points == {Scorer, Lifecycle}


BAD_CLASSES = [
    pytest.param("class Mine: ...", "no extension point", "score", id="no extension point"),
    pytest.param(
        "class Mine:\n    async def start(self): ...\n    async def stop(self): ...",
        "no extension point",
        "score",
        id="only a lifecycle",
    ),
    pytest.param("class Mine:\n    score = 3", "no extension point", "score", id="a score that is not a method"),
    pytest.param(
        "class Mine:\n    def __init__(self, size: int): ...\n    def score(self, r, c): ...",
        "'size'",
        "Clock",
        id="a parameter whose type is not a service",
    ),
    pytest.param(
        "class Mine:\n    def __init__(self, clock): ...\n    def score(self, r, c): ...",
        "'clock'",
        "Clock",
        id="a parameter without a type",
    ),
    pytest.param(
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from pointsman import Clock\n"
        "class Mine:\n    def __init__(self, clock: Clock): ...\n    def score(self, r, c): ...",
        "can't be resolved",
        "TYPE_CHECKING",
        id="a type imported for type checkers only",
    ),
    pytest.param(
        "from __future__ import annotations\nimport pointsman\n"
        "class Mine:\n    def __init__(self, clock: pointsman.Klock): ...\n    def score(self, r, c): ...",
        "can't be resolved",
        "",
        id="a type that its module does not have",
    ),
    pytest.param(
        "class Mine:\n    def __init__(self, clock: 'Clock ('): ...\n    def score(self, r, c): ...",
        "can't be resolved",
        "",
        id="a type that is not an expression",
    ),
]


@pytest.mark.parametrize(("source", "said", "hint"), BAD_CLASSES)
def test_a_class_that_can_t_be_built_is_an_error(
    catalogue: Catalogue, write: Write, source: str, said: str, hint: str
) -> None:
    write(source)
    error = fails(catalogue, "my_plugins:Mine")
    assert (said in str(error), hint in error.hint) == (True, True)


BAD_MODULES = [
    pytest.param("import no_such_package", "no_such_package", id="imports what is not there"),
    pytest.param("1 / 0", "ZeroDivisionError", id="fails"),
    pytest.param("class Mine", "SyntaxError", id="is not Python"),
]


@pytest.mark.parametrize(
    "address", [pytest.param("my_plugins:Mine", id="module"), pytest.param("{path}:Mine", id="file")]
)
@pytest.mark.parametrize(("source", "said"), BAD_MODULES)
def test_a_module_that_fails_to_import_says_why(
    catalogue: Catalogue, write: Write, source: str, said: str, address: str
) -> None:
    error = fails(catalogue, address.format(path=write(source)))
    assert ("my_plugins" in str(error), said in str(error)) == (True, True)


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("no_such_module:Mine", id="module"),
        pytest.param("no_such_package.module:Mine", id="package"),
        pytest.param("my_plugins.inner:Mine", id="module within a module"),
        pytest.param("/no/such/file.py:Mine", id="file"),
        pytest.param(":Mine", id="nothing before the colon"),
        pytest.param(".relative:Mine", id="relative module"),
    ],
)
def test_what_is_not_there_is_an_error(catalogue: Catalogue, write: Write, address: str) -> None:
    write(SCORER)
    assert str(fails(catalogue, address))


def test_a_missing_module_is_distinguished_from_one_that_fails(catalogue: Catalogue) -> None:
    error = fails(catalogue, "no_such_module:Mine")
    assert (str(error), error.hint) == ("there is no module 'no_such_module'", "is it installed?")


def test_a_folder_that_looks_like_a_file_is_an_error(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert "can't be read" in str(fails(catalogue, f"{tmp_path}/folder.py:Mine"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [pytest.param("Mien", "did you mean 'Mine'?", id="misspelt"), pytest.param("number", "Mine", id="no class")],
)
def test_a_class_that_is_missing_is_an_error_with_a_hint(
    catalogue: Catalogue, write: Write, name: str, hint: str
) -> None:
    write("from pointsman import plugin\nnumber = 3\n\n@plugin('mine')\nclass Mine:\n    def score(self, r, c): ...\n")
    error = fails(catalogue, f"my_plugins:{name}")
    assert (f"no class {name!r}" in str(error), hint in error.hint) == (True, True)


def test_a_file_that_failed_leaves_no_module_behind(catalogue: Catalogue, write: Write) -> None:
    fails(catalogue, f"{write('1 / 0')}:Mine")
    assert not [name for name in sys.modules if name.startswith("pointsman_file_my_plugins")]


# -- installed packages


def entry_point(name: str, value: str, package: str | None = "acme", version: str = "1.0") -> EntryPoint:
    point = EntryPoint(name, value, "pointsman.plugins")
    dist = SimpleNamespace(name=package, version=version) if package else None
    return point._for(dist)  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the catalogue see entry points."""

    def installed(*points: EntryPoint) -> None:
        monkeypatch.setattr(module, "entry_points", lambda *, group: points if group == "pointsman.plugins" else ())

    return installed


def test_an_installed_type_is_found(catalogue: Catalogue, write: Write, install: Callable[..., None]) -> None:
    write(SCORER)
    install(entry_point("mine", "my_plugins:Mine"))
    assert catalogue.find("mine").serves(Scorer)
    assert catalogue.find("mine") is catalogue.find("mine")


def test_an_installed_type_is_not_imported_before_it_is_named(
    catalogue: Catalogue, write: Write, install: Callable[..., None]
) -> None:
    write("1 / 0")
    install(entry_point("mine", "my_plugins:Mine"))
    assert ("mine" in catalogue.names, "my_plugins" in sys.modules) == (True, False)


def test_two_packages_with_one_type_are_an_error_that_names_them(
    catalogue: Catalogue, install: Callable[..., None]
) -> None:
    install(entry_point("mine", "my_plugins:Mine"), entry_point("mine", "other:Mine", "umbrella", "2.0"))
    error = fails(catalogue, "mine")
    assert "acme 1.0, umbrella 2.0" in str(error)
    assert error.hint == "uninstall all but one"


def test_one_package_seen_twice_is_one(catalogue: Catalogue, write: Write, install: Callable[..., None]) -> None:
    write(SCORER)
    install(entry_point("mine", "my_plugins:Mine"), entry_point("mine", "my_plugins:Mine"))
    assert catalogue.find("mine").serves(Scorer)


@pytest.mark.parametrize(
    ("package", "said"), [pytest.param("acme", "acme", id="known"), pytest.param(None, "", id="not")]
)
@pytest.mark.parametrize(("source", "why"), BAD_MODULES)
def test_an_installed_type_that_fails_names_its_package(
    catalogue: Catalogue, write: Write, install: Callable[..., None], package: str, said: str, source: str, why: str
) -> None:
    write(source)
    install(entry_point("mine", "my_plugins:Mine", package))
    error = str(fails(catalogue, "mine"))
    assert (said in error, why in error) == (True, True)


def test_an_installed_type_whose_class_is_missing_is_an_error(
    catalogue: Catalogue, write: Write, install: Callable[..., None]
) -> None:
    write(SCORER)
    install(entry_point("mine", "my_plugins:Other"))
    assert "can't be imported" in str(fails(catalogue, "mine"))


@pytest.mark.parametrize(
    "source", [pytest.param("def Mine(): ...", id="a function"), pytest.param("Mine = 3", id="a number")]
)
def test_an_installed_type_that_is_not_a_class_is_an_error(
    catalogue: Catalogue, write: Write, install: Callable[..., None], source: str
) -> None:
    write(source)
    install(entry_point("mine", "my_plugins:Mine"))
    assert fails(catalogue, "mine")


def test_a_misspelt_installed_type_gets_a_hint(catalogue: Catalogue, install: Callable[..., None]) -> None:
    install(entry_point("cheapest-scorer", "my_plugins:Mine"))
    assert fails(catalogue, "cheapest-score").hint == "did you mean 'cheapest-scorer'?"


def test_names_are_those_built_in_and_those_installed(catalogue: Catalogue, install: Callable[..., None]) -> None:
    install(entry_point("aaa", "my_plugins:Mine"))
    names: list[Any] = catalogue.names
    assert (names[0], "server-queue-length" in names, names) == ("aaa", True, sorted(names))


# -- versions of a file

SPEAKING = "class Mine:\n    says = %d\n    def score(self, request, candidates): return [0.0] * len(candidates)\n"


def test_a_file_of_the_same_size_and_time_and_other_content_is_other_code(catalogue: Catalogue, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    said = []
    for number in (1, 2):
        file.write_text(SPEAKING % number, encoding="utf-8")
        os.utime(file, (1_000_000, 1_000_000))
        said.append(catalogue.find(f"{file}:Mine").cls.says)
    assert said == [1, 2]


def test_a_link_that_is_swapped_for_the_same_content_leads_to_the_same_class(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "mine.py").write_text(SPEAKING % 1, encoding="utf-8")
    link = tmp_path / "data"
    link.symlink_to("one")
    before = catalogue.find(f"{link}/mine.py:Mine").cls
    link.unlink()
    link.symlink_to("two")
    assert catalogue.find(f"{link}/mine.py:Mine").cls is before


def test_a_file_that_fails_leaves_no_module(catalogue: Catalogue, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("1 / 0\n", encoding="utf-8")
    modules = set(sys.modules)
    fails(catalogue, f"{file}:Mine")
    assert set(sys.modules) == modules
