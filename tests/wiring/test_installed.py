"""Installed packages, as `importlib.metadata` sees them: broken, doubled, named like others, or just there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from app.checking import Checked
from app.extension import Lifecycle
from app.settings.errors import ConfigurationError, Fault
from app.settings.layers import Sources
from containers.application import Application, catalogue, check
from pointsman.testing import make_candidates, make_endpoint, make_request

GOOD = """
from pointsman import PluginParams

class Good:
    class Params(PluginParams):
        favourite: str = "y"
    def __init__(self, params: Params) -> None:
        self._favourite = params.favourite
    def score(self, request, candidates):
        return [float(endpoint.name == self._favourite) for endpoint in candidates]
"""


@dataclass
class Site:
    """A folder of installed packages."""

    folder: Path

    def install(
        self, package: str, modules: Mapping[str, str], points: Mapping[str, str] | str, *, version: str = "1.0"
    ) -> None:
        """Puts a package there as pip does; `points` are entry points, or the whole file that has them."""
        for module, source in modules.items():
            path = self.folder / f"{module.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(source))
        told = self.folder / f"{package.replace('-', '_')}-{version}.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        if not isinstance(points, str):
            points = "\n".join(["[pointsman.plugins]", *(f"{name} = {value}" for name, value in points.items())])
        (told / "entry_points.txt").write_text(points + "\n")
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder of installed packages on the import path; what was imported from there is forgotten afterwards."""
    before = set(sys.modules)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path / "site")
        (tmp_path / "site").mkdir()
        yield Site(tmp_path / "site")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
    importlib.invalidate_caches()


def faults(text: str, *files: str) -> list[Fault]:
    try:
        return list(check(Sources(files, text)).configuration.faults.all)
    except ConfigurationError as error:
        return list(error.faults)


def fine(text: str, *files: str) -> Checked:
    return check(Sources(files, text))


def pick(checked: Checked) -> str:
    scheduler = Application(checked).generation.scheduler()
    return scheduler.schedule(make_request(), make_candidates("x", "y", "z")).endpoint.name


# -- one broken package

SCORE = "def score(self, request, candidates): return [1.0] * len(candidates)"

BROKEN = [
    pytest.param("raise RuntimeError('no licence')", "broken:Mine", "RuntimeError: no licence", id="raises"),
    pytest.param(
        f"class Mine:\n    {SCORE}\nraise RuntimeError('half of it')",
        "broken:Mine",
        "RuntimeError: half of it",
        id="raises half-way",
    ),
    pytest.param("import no_such_package", "broken:Mine", "no_such_package", id="misses what it imports"),
    pytest.param("class Mine", "broken:Mine", "SyntaxError", id="is no Python"),
    pytest.param(
        "import sys\nsys.exit('no GPU here')", "broken:Mine", "SystemExit: no GPU here", id="ends the process"
    ),
    pytest.param("raise SystemExit(0)", "broken:Mine", "SystemExit: 0", id="ends the process as if all were well"),
    pytest.param("class Other: ...", "broken:Mine", "no attribute 'Mine'", id="class missing"),
    pytest.param("class Mine: ...", "broken.inner:Mine", "'broken.inner'", id="module missing"),
    pytest.param("class Mine: ...", "broken:Mine", "no extension point", id="class without extension points"),
    pytest.param(
        f"class Mine:\n    def __init__(self, size: int): ...\n    {SCORE}",
        "broken:Mine",
        "'size'",
        id="odd constructor",
    ),
    pytest.param(
        f"class Mine:\n    def __init__(self, size: 'Nothing'): ...\n    {SCORE}",
        "broken:Mine",
        "'Nothing'",
        id="odd annotation",
    ),
    pytest.param("def Mine(): ...", "broken:Mine", "is not a class", id="a function"),
    pytest.param(f"class Other:\n    {SCORE}\nMine = Other()", "broken:Mine", "is not a class", id="an object"),
    pytest.param("def score(request, candidates): ...", "broken", "is not a class", id="a module"),
    pytest.param(f"class Mine:\n    {SCORE}", "my broken:Mine", "my broken:Mine", id="an address that is none"),
]


@pytest.mark.parametrize("parameters", ["", ", parameters: {size: 3}"], ids=["without", "with parameters"])
@pytest.mark.parametrize(("source", "value", "why"), BROKEN)
def test_a_broken_package_that_is_named_is_one_fault_with_the_package_and_the_reason(
    site: Site, source: str, value: str, why: str, parameters: str
) -> None:
    site.install("acme-broken", {"broken": source}, {"broken-scorer": value})
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    found = faults(f"plugins:\n- {{type: good-scorer}}\n- {{type: broken-scorer{parameters}}}\n- {{type: queue-scorr}}")
    assert [(fault.origin.line, fault.severity) for fault in found] == [(3, "error"), (4, "error")]
    assert ("acme-broken" in str(found[0]), why in str(found[0])) == (True, True), str(found[0])


@pytest.mark.parametrize(("source", "value", "why"), BROKEN)
def test_a_broken_package_that_is_not_named_is_nothing(site: Site, source: str, value: str, why: str) -> None:
    site.install("acme-broken", {"broken": source}, {"broken-scorer": value})
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    checked = fine("plugins: [{type: good-scorer}]")
    assert (pick(checked), checked.configuration.faults.all, "broken" in sys.modules) == ("y", (), False)


def test_a_broken_package_that_is_switched_off_keeps_nothing_from_starting(site: Site) -> None:
    site.install("acme-broken", {"broken": "raise RuntimeError('no licence')"}, {"broken-scorer": "broken:Mine"})
    found = faults("plugins: [{type: broken-scorer}, {type: max-score-picker}]", "builtin:default")
    assert len(found) == 1
    assert not faults("plugins: [{type: broken-scorer, enabled: false}, {type: max-score-picker}]", "builtin:default")


WAYS = ["broken-scorer", "broken:Mine", "{folder}/broken.py:Mine"]


@pytest.mark.parametrize("way", WAYS, ids=["entry point", "module", "file"])
def test_the_reason_is_the_first_one_however_often_the_package_is_looked_at(site: Site, way: str) -> None:
    source = """
        from pathlib import Path
        tried = Path(__file__).with_name("tried")
        if tried.exists():
            raise ValueError("this metric is registered already")
        tried.touch()
        raise RuntimeError("no licence")
    """
    site.install("acme-broken", {"broken": source}, {"broken-scorer": "broken:Mine"})
    (found,) = faults(f"plugins: [{{type: '{way.format(folder=site.folder)}', parameters: {{size: 3}}}}]")
    assert "no licence" in str(found)


@pytest.mark.parametrize("way", WAYS, ids=["entry point", "module", "file"])
def test_a_module_that_ends_the_process_is_a_fault_in_any_way_it_is_named(site: Site, way: str) -> None:
    site.install("acme-broken", {"broken": "raise SystemExit(0)"}, {"broken-scorer": "broken:Mine"})
    (found,) = faults(f"plugins: [{{type: '{way.format(folder=site.folder)}'}}]")
    assert ("SystemExit" in str(found), "broken" in str(found)) == (True, True)


def test_an_object_in_place_of_a_class_is_a_fault_and_no_traceback(site: Site) -> None:
    site.install("acme-broken", {"broken": GOOD + "mine = Good(Good.Params())"}, {"broken-scorer": "broken:mine"})
    (found,) = faults("plugins: [{type: broken-scorer}]")
    assert ("acme-broken" in str(found), "is not a class" in str(found)) == (True, True)


NEEDS_A_FACT = """
from pointsman import EndpointFactKey, FactKey

class Needing:
    needs = (FactKey("acme-fact", "acme-producer", 0),)
    def score(self, request, candidates): return [1.0] * len(candidates)

class Producing:
    produces = (FactKey("acme-fact", "acme-producer", 0),)
    async def produce(self, request, pool): return {}
"""


def test_an_installed_producer_is_added_for_a_fact_that_a_plugin_needs(site: Site) -> None:
    site.install("acme", {"acme": NEEDS_A_FACT}, {"needing": "acme:Needing", "acme-producer": "acme:Producing"})
    assert list(fine("plugins: [{type: needing}]").plan.producers) == ["acme-producer"]


def test_a_broken_producer_that_a_fact_needs_is_named_with_its_package_and_the_reason(site: Site) -> None:
    site.install("acme", {"acme": NEEDS_A_FACT}, {"needing": "acme:Needing"})
    site.install("acme-broken", {"broken": "raise RuntimeError('no licence')"}, {"acme-producer": "broken:Mine"})
    found = " ".join(map(str, faults("plugins: [{type: needing}]")))
    assert ("acme-broken" in found, "no licence" in found) == (True, True), found


def test_a_broken_parser_named_by_its_type_alone_is_one_fault_at_its_place(site: Site) -> None:
    site.install("acme-broken", {"broken": "raise RuntimeError('no licence')"}, {"broken-parser": "broken:Mine"})
    found = faults("plugins: []\nrequestHandler:\n  parsers: [{pluginRef: broken-parser}]")
    assert [fault.origin.line for fault in found] == [3]
    assert ("acme-broken" in str(found[0]), "no licence" in str(found[0])) == (True, True)


def test_one_of_a_packages_types_may_be_broken(site: Site) -> None:
    site.install(
        "acme-both", {"good": GOOD, "broken": "1 / 0"}, {"good-scorer": "good:Good", "broken-scorer": "broken:Mine"}
    )
    assert pick(fine("plugins: [{type: good-scorer, parameters: {favourite: z}}]")) == "z"


ODD_METADATA = [
    pytest.param("entry_points.txt", b"[pointsman.plugins]\nbroken-scorer\n", id="an entry point without a value"),
    pytest.param("entry_points.txt", b"[other.group]\nnothing here\n", id="a line of another group without a value"),
    pytest.param("entry_points.txt", b"broken-scorer = broken:Mine\n", id="no group"),
    pytest.param("entry_points.txt", b"[pointsman.plugins]\nb\xff = broken:Mine\n", id="not UTF-8"),
    pytest.param("entry_points.txt", b"[pointsman.plugins]\n= broken:Mine\nx =\n", id="nothing beside the ="),
    pytest.param("entry_points.txt", None, id="no entry points"),
    pytest.param("METADATA", None, id="no metadata"),
    pytest.param("METADATA", b"", id="empty metadata"),
    pytest.param("METADATA", b"\xff\xfe", id="metadata that is no text"),
]


@pytest.mark.parametrize(("name", "content"), ODD_METADATA)
def test_a_package_with_odd_metadata_does_not_stop_the_rest(site: Site, name: str, content: bytes | None) -> None:
    site.install("acme-broken", {"broken": "1 / 0"}, {"broken-scorer": "broken:Mine"})
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    path = site.folder / "acme_broken-1.0.dist-info" / name
    path.unlink() if content is None else path.write_bytes(content)
    importlib.invalidate_caches()
    assert pick(fine("plugins: [{type: good-scorer}]")) == "y"
    (found,) = faults("plugins: [{type: god-scorer}]")
    assert "did you mean 'good-scorer'?" in str(found)


# -- names that meet


def test_two_packages_with_one_type_are_a_fault_that_names_both_with_their_versions(site: Site) -> None:
    site.install("acme", {"acme": GOOD}, {"good-scorer": "acme:Good"}, version="1.2")
    site.install("umbrella", {"umbrella": GOOD}, {"good-scorer": "umbrella:Good"}, version="3.4")
    (found,) = faults("plugins:\n- {type: good-scorer, parameters: {favourite: z}}")
    assert (found.origin.line, "acme 1.2" in str(found), "umbrella 3.4" in str(found)) == (2, True, True)
    assert not {"acme", "umbrella"} & set(sys.modules)


def test_two_packages_with_one_type_are_nothing_if_it_is_not_named(site: Site) -> None:
    site.install("acme", {"acme": GOOD}, {"good-scorer": "acme:Good"})
    site.install("umbrella", {"umbrella": GOOD}, {"good-scorer": "umbrella:Good", "other-scorer": "umbrella:Good"})
    assert not faults("plugins: [{type: other-scorer}]")


def test_two_packages_that_name_the_same_class_are_told_all_the_same(site: Site) -> None:
    site.install("acme", {"acme": GOOD}, {"good-scorer": "acme:Good"})
    site.install("umbrella", {}, {"good-scorer": "acme:Good"})
    (found,) = faults("plugins: [{type: good-scorer}]")
    assert ("acme 1.0" in str(found), "umbrella 1.0" in str(found)) == (True, True)


def test_packages_are_told_in_the_same_order_on_every_machine(site: Site) -> None:
    for package in ("cc", "aa", "ee", "bb", "dd"):
        site.install(package, {}, {"good-scorer": "good:Good"})
    (found,) = faults("plugins: [{type: good-scorer}]")
    assert "aa 1.0, bb 1.0, cc 1.0, dd 1.0, ee 1.0" in str(found)


@pytest.mark.parametrize("twice", ["symlink", "the same folder", "a copy"])
def test_one_package_twice_on_the_path_counts_once(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twice: str
) -> None:
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    other = site.folder
    if twice == "symlink":
        other = tmp_path / "lib64"
        other.symlink_to(site.folder)
    elif twice == "a copy":
        other = tmp_path / "copy"
        Site(other).install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(other)])
    importlib.invalidate_caches()
    assert pick(fine("plugins: [{type: good-scorer}]")) == "y"


def test_of_two_versions_on_the_path_the_one_that_is_imported_counts(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"}, version="2.0")
    Site(tmp_path / "old").install("acme-good", {"old": "1 / 0"}, {"good-scorer": "old:Good"}, version="1.0")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "old")])
    importlib.invalidate_caches()
    assert pick(fine("plugins: [{type: good-scorer}]")) == "y"


def test_what_an_interrupted_uninstall_left_behind_counts_once(site: Site) -> None:
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    site.install("~cme-good", {}, {"good-scorer": "good:Good"})
    left = site.folder / "~cme_good-1.0.dist-info" / "METADATA"
    left.write_text(left.read_text().replace("~cme-good", "acme-good"))
    assert pick(fine("plugins: [{type: good-scorer}]")) == "y"


@pytest.mark.parametrize("name", ["queue-scorer", "server-queue-length"], ids=["a type", "an alias"])
def test_a_package_with_the_name_of_a_built_in_type_does_not_replace_it_and_is_told_when_it_is_used(
    site: Site, name: str
) -> None:
    site.install("acme-queue", {"acme": GOOD}, {name: "acme:Good"}, version="1.2")
    (found,) = [fault for fault in faults(f"plugins: [{{type: {name}}}]") if "acme" in str(fault)]
    assert ("acme-queue 1.2" in str(found), name in str(found)) == (True, True)
    assert "acme" not in sys.modules


def test_a_package_with_the_name_of_a_built_in_type_runs_nothing(site: Site) -> None:
    site.install("acme-queue", {"acme": GOOD}, {"queue-scorer": "acme:Good"})
    try:
        found = fine("plugins: [{type: queue-scorer}]").plan.plugins["queue-scorer"].type.cls.__module__
    except ConfigurationError:
        found = "refused"
    assert (found in {"plugins.scorers.queue", "refused"}, "acme" in sys.modules) == (True, False)


def test_a_package_with_the_name_of_a_built_in_type_is_nothing_if_that_is_not_used(site: Site) -> None:
    site.install("acme-queue", {"acme": GOOD}, {"random-picker": "acme:Good"})
    assert not faults("plugins: [{type: queue-scorer}]")


# -- just there

EVERYTHING = """
from pointsman import WAITING, PREFIX_HITS

class Everything:
    needs = (PREFIX_HITS,)
    produces = (WAITING,)
    paths = ("/v1/chat/completions",)
    def pick_profiles(self, request, profiles, finished): raise AssertionError
    def conclude(self, request, finished): raise AssertionError
    def filter(self, request, candidates): raise AssertionError
    def score(self, request, candidates): raise AssertionError
    def pick(self, request, scored): raise AssertionError
    async def produce(self, request, pool): raise AssertionError
    def on_scheduled(self, request, decision): raise AssertionError
    async def start(self): raise AssertionError
    async def stop(self): raise AssertionError
"""


BY_QUEUE = "plugins: [{type: decode-filter}, {type: queue-scorer}, {type: prefix-cache-scorer}]"


def hooks(checked: Checked) -> list[object]:
    generation = Application(checked).generation
    seen = generation.observers()
    lists = [generation.producers(), seen.on_scheduled, seen.on_first_token, seen.on_finished, seen.on_refused]
    started = [one for one in generation.named_plugins() if isinstance(one.plugin, Lifecycle)]
    named = [[one.name for one in hooked] for hooked in (*lists, started)]
    return [*named, list(generation.plugins.providers), list(checked.plan.parsers), checked.effective()]


def test_a_package_that_is_installed_and_not_named_runs_nothing_and_changes_no_pick(site: Site) -> None:
    before = fine(BY_QUEUE)
    everything = {f"{kind}-of-acme": "acme_all:Everything" for kind in ("picker", "parser", "producer", "handler")}
    site.install("acme-all", {"acme_all": EVERYTHING}, everything)
    after = fine(BY_QUEUE)
    assert "picker-of-acme" in catalogue().names
    assert hooks(after) == hooks(before)
    candidates = make_candidates(*(make_endpoint(name) for name in "xyz"), waiting=[3, 1, 2])
    for checked in (before, after):
        scheduler = Application(checked).generation.scheduler()
        assert scheduler.schedule(make_request(), candidates).endpoint.name == "y"
    assert "acme_all" not in sys.modules


# -- the same class in two ways


def test_a_class_by_its_entry_point_and_by_its_address_is_one_type_and_two_plugins(site: Site) -> None:
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good:Good"})
    for first, second in (("good-scorer", "good:Good"), ("good:Good", "good-scorer")):
        plugins = fine(
            f"plugins: [{{name: a, type: '{first}', parameters: {{favourite: x}}}}, {{name: b, type: '{second}'}}]"
        ).plan.plugins
        assert plugins["a"].type is plugins["b"].type
        assert [plugins[name].params.favourite for name in "ab"] == ["x", "y"]


def test_a_class_has_the_same_plan_in_either_way(site: Site) -> None:
    site.install("acme-good", {"good": GOOD}, {"good-scorer": "good : Good"})
    plans = [fine(f"plugins: [{{name: a, type: '{kind}'}}]").plan for kind in ("good-scorer", "good:Good")]
    assert plans[0].profiles == plans[1].profiles
    assert plans[0].plugins["a"].type.cls is plans[1].plugins["a"].type.cls


def test_a_source_by_its_entry_point_gets_its_extractor_as_by_its_address(site: Site) -> None:
    source = "from plugins.sources.metrics_data_source import MetricsDataSource"
    site.install("acme-source", {"acme_source": source}, {"acme-metrics": "acme_source:MetricsDataSource"})
    text = "plugins: [{{name: m, type: '{kind}'}}]\ndataLayer: {{sources: [{{pluginRef: m}}]}}"
    kinds = ("acme-metrics", "acme_source:MetricsDataSource", "metrics-data-source")
    plans = [fine(text.format(kind=kind)).plan.sources for kind in kinds]
    assert plans[0] == plans[1] == plans[2]
