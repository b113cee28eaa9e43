"""`file-discovery`: valid files, invalid files, and files that change."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from app import watching as watcher
from app.endpoints_files import LocalEndpointsFiles
from app.extension import DiscoveryError, Endpoint
from plugins.discovery.file import FileDiscovery
from pointsman.testing import FakeEndpointsFiles, make_endpoint
from tests.unit.plugins.given import params_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

REJECTED = "endpoint file rejected"

WAIT = 20
"""Seconds to wait for a change before the test fails."""


class Watched:
    """Waits for a discovery's task; the test fails if the task ends."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not holds():
                if self.task is not None and self.task.done():
                    self.task.result()
                self.changed.clear()
                await self.changed.wait()


class Sink(Watched):
    """Records the lists of endpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[list[Endpoint]] = []

    def replace_all(self, endpoints: Sequence[Endpoint]) -> None:
        self.lists.append(list(endpoints))
        self.changed.set()

    @property
    def names(self) -> list[str]:
        return [endpoint.name for endpoint in self.lists[-1]] if self.lists else []

    async def found(self, *names: str) -> None:
        await self.until(lambda: self.names == list(names))


class Log(Watched):
    """Records the log events."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def error(self, event: str, **_: object) -> None:
        self.lines.append(event)
        self.changed.set()

    info = error

    async def logged(self, *lines: str) -> None:
        await self.until(lambda: self.lines == list(lines))


def entry(called: str, **fields: Any) -> dict[str, Any]:
    return {"name": called, "address": "10.0.0.1", "port": 8000, **fields}


def listing(*names: str) -> str:
    return json.dumps({"endpoints": [entry(name) for name in names]})


def discovery(path: Path, *, watch: bool = False) -> FileDiscovery:
    params = params_of(FileDiscovery.Params, {"path": str(path), "watchFile": watch})
    return FileDiscovery(params, LocalEndpointsFiles())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file, which does not exist yet."""
    return tmp_path / "endpoints.yaml"


def write(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


def link(path: Path, target: str) -> None:
    path.symlink_to(target)


async def found(path: Path, text: str) -> list[Endpoint]:
    write(path, text)
    sink = Sink()
    await discovery(path).discover(sink)
    (endpoints,) = sink.lists
    return endpoints


@pytest.mark.parametrize(
    ("fields", "authority"),
    [
        pytest.param({"port": 8000}, "10.0.0.1:8000", id="port as a number"),
        pytest.param({"port": "8000"}, "10.0.0.1:8000", id="port as text"),
        pytest.param({"port": 1}, "10.0.0.1:1", id="lowest port"),
        pytest.param({"port": 65535}, "10.0.0.1:65535", id="highest port"),
        pytest.param({"address": "::1"}, "[::1]:8000", id="IPv6"),
        pytest.param({"address": "2001:DB8::1"}, "[2001:db8::1]:8000", id="IPv6 in capitals"),
        pytest.param({"address": "gpu-1.rack.example"}, "gpu-1.rack.example:8000", id="host name"),
        pytest.param({"address": "localhost"}, "localhost:8000", id="short host name"),
    ],
)
async def test_a_valid_address_is_accepted(path: Path, fields: dict[str, Any], authority: str) -> None:
    (endpoint,) = await found(path, json.dumps({"endpoints": [entry("a", **fields)]}))
    assert endpoint.authority == authority


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        pytest.param({}, "a", id="no namespace"),
        pytest.param({"namespace": "default"}, "a", id="the default namespace"),
        pytest.param({"namespace": "prod"}, "prod/a", id="another namespace"),
    ],
)
async def test_the_namespace_is_part_of_the_name(path: Path, fields: dict[str, Any], name: str) -> None:
    (endpoint,) = await found(path, json.dumps({"endpoints": [entry("a", **fields)]}))
    assert endpoint.name == name


async def test_labels_and_the_metrics_port_are_read(path: Path) -> None:
    text = "endpoints: [{name: a, address: 10.0.0.1, port: 1, metricsPort: '2', labels: {gpu: h100}}]"
    (endpoint,) = await found(path, text)
    assert (endpoint.labels, endpoint.metrics_authority) == ({"gpu": "h100"}, "10.0.0.1:2")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("endpoints: []", [], id="no endpoint"),
        pytest.param(listing("b", "a"), ["b", "a"], id="JSON in the file's order"),
        pytest.param("# comment\nendpoints:\n- {name: a, address: gpu, port: 1}\n", ["a"], id="YAML with a comment"),
        pytest.param(
            json.dumps({"endpoints": [entry("a"), entry("a", namespace="prod")]}),
            ["a", "prod/a"],
            id="the same name in two namespaces",
        ),
    ],
)
async def test_a_valid_file_has_its_endpoints_in_order(path: Path, text: str, names: list[str]) -> None:
    assert [endpoint.name for endpoint in await found(path, text)] == names


def one(**fields: Any) -> str:
    return json.dumps({"endpoints": [entry("a", **fields)]})


def without(key: str) -> str:
    return json.dumps({"endpoints": [{name: value for name, value in entry("a").items() if name != key}]})


INVALID = [
    pytest.param("", "", id="empty file"),
    pytest.param("[]", "", id="a list"),
    pytest.param("{}", "endpoints", id="no endpoints"),
    pytest.param("endpoints: nothing", "endpoints", id="text for the list"),
    pytest.param("endpoints:", "endpoints", id="null for the list"),
    pytest.param("endpoints: [a", "", id="invalid YAML"),
    pytest.param("endpoints: [\x00]", "", id="a control character"),
    pytest.param("endpoints: []\nmore: 1", "more", id="unknown key of the file"),
    pytest.param(one(weight=1), "weight", id="unknown key of an entry"),
    pytest.param(without("name"), "name", id="no name"),
    pytest.param(without("address"), "address", id="no address"),
    pytest.param(without("port"), "port", id="no port"),
    pytest.param(one(name=""), "name", id="empty name"),
    pytest.param(one(name=7), "name", id="a number as name"),
    pytest.param(one(port=0), "port", id="port zero"),
    pytest.param(one(port=65536), "port", id="port too high"),
    pytest.param(one(port="65536"), "port", id="port too high as text"),
    pytest.param(one(port=-1), "port", id="negative port"),
    pytest.param(one(port="http"), "port", id="port as a word"),
    pytest.param(one(port=""), "port", id="empty port"),
    pytest.param(one(port=80.5), "port", id="port with a fraction"),
    pytest.param(one(port=True), "port", id="a boolean as port"),
    pytest.param(one(port="9" * 5000), "port", id="port of 5000 digits"),
    pytest.param(one(port="\u0661"), "port", id="port in other digits"),
    pytest.param(one(metricsPort=0), "metricsPort", id="metrics port zero"),
    pytest.param(one(address=""), "address", id="empty address"),
    pytest.param(one(address="10.0.0.1:80"), "address", id="address with a port"),
    pytest.param(one(address="[::1]"), "address", id="IPv6 in brackets"),
    pytest.param(one(address="10.0.0.256"), "address", id="IPv4 out of range"),
    pytest.param(one(address="http://gpu"), "address", id="URL as address"),
    pytest.param(one(address="-gpu"), "address", id="host name with a leading dash"),
    pytest.param(one(address="a" * 64), "address", id="label of a host name too long"),
    pytest.param(one(address="a." * 127 + "a"), "address", id="host name too long"),
    pytest.param(one(labels={"gpu": 1}), "labels", id="label that is a number"),
    pytest.param(one(labels=["gpu"]), "labels", id="list of labels"),
    pytest.param(listing("a", "b", "a"), "'a'", id="duplicate name"),
    pytest.param(
        json.dumps({"endpoints": [entry("prod/a"), entry("a", namespace="prod")]}),
        "prod/a",
        id="two ways to the same name",
    ),
    pytest.param("endpoints: 2024-13-45", "", id="invalid date"),
    pytest.param("endpoints: !!bool maybe", "", id="invalid boolean"),
    pytest.param("endpoints: !!timestamp now", "", id="invalid timestamp"),
    pytest.param("endpoints: !!int ''", "", id="invalid number"),
    pytest.param("endpoints: !!python/object:os.system {}", "", id="a Python object"),
    pytest.param("[" * 5000, "", id="nested too deep"),
    pytest.param("#" * (1024 * 1024 + 1), "larger", id="too large"),
]


@pytest.mark.parametrize(("text", "reason"), INVALID)
def test_an_invalid_file_is_an_error_with_its_path_and_the_reason(path: Path, text: str, reason: str) -> None:
    path.write_text(text)
    with pytest.raises(DiscoveryError, match=path.name) as caught:
        discovery(path).check()
    assert reason in str(caught.value)


def test_a_file_that_is_not_text_is_an_error(path: Path) -> None:
    path.write_bytes(b"endpoints: [\xff\xfe]")
    with pytest.raises(DiscoveryError):
        discovery(path).check()


def test_a_file_of_the_maximum_size_is_read(path: Path) -> None:
    text = listing("a")
    path.write_text(text + " " * (1024 * 1024 - len(text)))
    discovery(path).check()


@pytest.mark.parametrize(
    "make", [pytest.param(lambda path: None, id="missing"), pytest.param(Path.mkdir, id="a folder")]
)
async def test_an_unreadable_file_is_an_error(path: Path, make: Callable[[Path], None]) -> None:
    make(path)
    with pytest.raises(DiscoveryError, match=path.name):
        await discovery(path).discover(Sink())


async def test_a_file_that_is_not_watched_is_read_once(path: Path) -> None:
    write(path, listing("a"))
    async with asyncio.timeout(WAIT):
        await discovery(path).discover(Sink())


@asynccontextmanager
async def watching(path: Path, log: Log | None = None) -> AsyncIterator[Sink]:
    sink, plugin = Sink(), discovery(path, watch=True)
    plugin._log = log = log or Log()
    sink.task = log.task = task = asyncio.create_task(plugin.discover(sink))
    for watched in (sink, log):
        task.add_done_callback(lambda _, changed=watched.changed: changed.set())
    try:
        yield sink
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def reread_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change before the watch is set up is found when the file is read again."""
    monkeypatch.setattr(watcher, "POLL_EVERY", 100)


def rename_over(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def truncate_and_write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.flush()
        file.write(text)


def remove_and_create(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("change", [rename_over, truncate_and_write, remove_and_create])
async def test_a_changed_file_replaces_the_endpoints(path: Path, change: Callable[[Path, str], None]) -> None:
    write(path, listing("a"))
    async with watching(path) as sink:
        await sink.found("a")
        change(path, listing("a", "b"))
        await sink.found("a", "b")
        change(path, listing("c"))
        await sink.found("c")


def config_map(folder: Path, version: str, text: str) -> None:
    """Writes a version as Kubernetes mounts a ConfigMap: the link `..data` is replaced, the file's own link is not."""
    (folder / version).mkdir()
    (folder / version / "endpoints.yaml").write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(version)
    link.replace(folder / "..data")


async def test_a_replaced_symbolic_link_replaces_the_endpoints(tmp_path: Path, path: Path) -> None:
    config_map(tmp_path, "..one", listing("a"))
    link(path, "..data/endpoints.yaml")
    async with watching(path) as sink:
        await sink.found("a")
        config_map(tmp_path, "..two", listing("b"))
        await sink.found("b")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("endpoints: [", id="invalid YAML"),
        pytest.param(listing("b", "b"), id="duplicate name"),
        pytest.param(one(port=0), id="bad port"),
        pytest.param("", id="empty"),
        pytest.param("#" * (1024 * 1024 + 1), id="too large"),
        pytest.param("endpoints: !!bool maybe", id="invalid boolean"),
    ],
)
async def test_an_invalid_version_keeps_the_endpoints_until_a_valid_one(path: Path, text: str) -> None:
    write(path, listing("a"))
    log = Log()
    async with watching(path, log) as sink:
        await sink.found("a")
        rename_over(path, text)
        await log.logged(REJECTED)
        assert sink.names == ["a"]
        rename_over(path, listing("c"))
        await sink.found("c")


async def test_an_invalid_version_is_logged_once(path: Path) -> None:
    write(path, listing("a"))
    log = Log()
    async with watching(path, log) as sink:
        await sink.found("a")
        rename_over(path, "endpoints: [")
        await log.logged(REJECTED)
        rename_over(path, "endpoints: 1")
        await log.logged(REJECTED, REJECTED)
        rename_over(path, listing("b"))
        await log.logged(REJECTED, REJECTED, "endpoints read")


async def test_a_removed_file_keeps_the_endpoints_until_it_is_back(path: Path) -> None:
    write(path, listing("a"))
    async with watching(path) as sink:
        await sink.found("a")
        remove(path)
        rename_over(path, listing("b"))
        await sink.found("b")


async def test_the_same_content_is_no_change(path: Path) -> None:
    write(path, listing("a"))
    async with watching(path) as sink:
        await sink.found("a")
        rename_over(path, listing("a"))
        rename_over(path, listing("b"))
        await sink.found("b")
    assert [[endpoint.name for endpoint in endpoints] for endpoints in sink.lists] == [["a"], ["b"]]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="no path"),
        pytest.param({"path": ""}, id="empty path"),
        pytest.param({"path": "x", "watchFile": "yes"}, id="text for a boolean"),
        pytest.param({"path": "x", "watch": True}, id="unknown key"),
    ],
)
def test_invalid_parameters_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        params_of(FileDiscovery.Params, values)


async def test_an_error_is_logged_again_only_after_a_valid_version_or_another_error(path: Path) -> None:
    a, b = [make_endpoint("a")], [make_endpoint("b")]
    gone, broken = DiscoveryError("gone"), DiscoveryError("broken")
    files = FakeEndpointsFiles(a, gone, gone, broken, broken, b, broken)
    plugin = FileDiscovery(FileDiscovery.Params(path=str(path), watch_file=True), files)
    plugin._log = log = Log()
    sink = Sink()
    await plugin.discover(sink)
    assert sink.lists == [a, b]
    assert log.lines == [REJECTED, REJECTED, "endpoints read", REJECTED]


async def test_an_invalid_first_version_of_a_watched_file_is_an_error(path: Path) -> None:
    write(path, "endpoints: [")
    with pytest.raises(DiscoveryError, match=r"endpoints\.yaml:1:13: this is not YAML"):
        await discovery(path, watch=True).discover(Sink())


def test_an_invalid_file_does_not_pass_the_check(path: Path) -> None:
    plugin = FileDiscovery(FileDiscovery.Params(path=str(path)), FakeEndpointsFiles(DiscoveryError("broken")))
    with pytest.raises(DiscoveryError, match="broken"):
        plugin.check()
