"""Which settings the process reads, and which of them need a restart when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from app.settings.errors import Faults
from app.settings.reader import read_yaml
from app.settings.reading import SettingsReader
from app.settings.schema import Settings


def settings_of(text: str) -> Settings:
    """The settings of a YAML text over the defaults."""
    faults = Faults()
    settings = Settings.of(read_yaml(text or "{}", "a.yaml", faults))
    assert not faults.all
    return settings


def keys_after(function: Callable[[Any], Any], before: str, after: str) -> list[str]:
    """What needs a restart if the process reads `function` of `before`, and the settings become `after`."""
    reader = SettingsReader(settings_of(before))
    reader.read(function)
    return list(reader.needing_restart(settings_of(after)))


def simulated(settings: Any) -> Any:
    return settings.simulation.servers, settings.simulation.seed


def port_of_envoy(settings: Any) -> Any:
    """Reads the port only if Envoy is enabled."""
    return settings.transports.http.port if settings.transports.envoy.enabled else None


def names_of_endpoints(settings: Any) -> Any:
    """Reads a property, which reads a list."""
    return [endpoint.name for endpoint in settings.pool.static_endpoints]


def envoy(port: int, *, enabled: str) -> str:
    return f"transports: {{http: {{port: {port}}}, envoy: {{enabled: {enabled}}}}}"


def endpoints(*ports: int) -> str:
    return f"pool: {{endpoints: [{', '.join(f'{{name: e{port}, address: h, port: {port}}}' for port in ports)}]}}"


def test_the_result_is_what_the_function_returns() -> None:
    reader = SettingsReader(settings_of("simulation: {servers: 3}"))
    assert reader.read(simulated) == (3, 0)


@pytest.mark.parametrize(
    ("function", "before", "after", "keys"),
    [
        pytest.param(simulated, "", "", [], id="nothing changes"),
        pytest.param(simulated, "", "simulation: {servers: 0}", [], id="a default is written down"),
        pytest.param(
            simulated, "", "simulation: {servers: 2}", ["simulation.servers"], id="one of two settings changes"
        ),
        pytest.param(
            simulated,
            "simulation: {servers: 2}",
            "simulation: {seed: 1}",
            ["simulation.seed", "simulation.servers"],
            id="both change",
        ),
        pytest.param(simulated, "", "simulation: {model: x}", [], id="a setting that is not read"),
        pytest.param(simulated, "", "pool: {name: x}", [], id="another section"),
        pytest.param(
            lambda settings: settings.simulation.servers > 0,
            "simulation: {servers: 1}",
            "simulation: {servers: 2}",
            [],
            id="the same result",
        ),
        pytest.param(
            lambda settings: settings.transports.http.timeouts.keep_alive,
            "",
            "transports: {http: {timeouts: {keepAlive: 1s}}}",
            ["transports.http.timeouts.keepAlive"],
            id="spelled as in YAML",
        ),
        pytest.param(
            lambda settings: settings.transports.ext_proc.tls.cert_file,
            "",
            "transports: {extProc: {tls: {certFile: a, keyFile: b}}}",
            ["transports.extProc.tls.certFile"],
            id="of a deeper section",
        ),
        pytest.param(
            port_of_envoy,
            envoy(1, enabled="false"),
            envoy(2, enabled="false"),
            [],
            id="a setting that is read in another case",
        ),
        pytest.param(
            port_of_envoy,
            envoy(1, enabled="false"),
            envoy(2, enabled="true"),
            ["transports.envoy.enabled", "transports.http.port"],
            id="a setting that is only read afterwards",
        ),
        pytest.param(
            port_of_envoy,
            envoy(1, enabled="true"),
            envoy(2, enabled="false"),
            ["transports.envoy.enabled", "transports.http.port"],
            id="a setting that was only read before",
        ),
        pytest.param(
            port_of_envoy,
            envoy(1, enabled="false"),
            envoy(1, enabled="true"),
            ["transports.envoy.enabled"],
            id="a setting that is only read afterwards and is the same",
        ),
        pytest.param(names_of_endpoints, endpoints(1, 2), endpoints(1, 3), ["pool.endpoints"], id="a list"),
        pytest.param(names_of_endpoints, endpoints(1, 2), endpoints(1, 2), [], id="an equal list"),
        pytest.param(
            lambda settings: settings.tls_files,
            "",
            "pool: {tls: {caFile: a}}",
            ["pool.tls.caFile"],
            id="one of many that a property reads",
        ),
    ],
)
def test_what_was_read_and_gives_another_result_needs_a_restart(
    function: Callable[[Any], Any], before: str, after: str, keys: list[str]
) -> None:
    assert keys_after(function, before, after) == keys


def test_without_a_read_nothing_needs_a_restart() -> None:
    assert not SettingsReader(Settings()).needing_restart(settings_of("simulation: {servers: 2}"))


def test_a_key_is_named_once() -> None:
    reader = SettingsReader(Settings())
    for function in (simulated, simulated, lambda settings: settings.simulation.servers):
        reader.read(function)
    assert list(reader.needing_restart(settings_of("simulation: {servers: 2}"))) == ["simulation.servers"]


def test_settings_are_compared_with_those_at_the_start() -> None:
    reader = SettingsReader(Settings())
    reader.read(simulated)
    found = [
        len(reader.needing_restart(settings_of(f"simulation: {{servers: {servers}}}"))) for servers in (2, 2, 0, 3, 0)
    ]
    assert found == [1, 1, 0, 1, 0]


# -- any settings


def numbers_in(section: BaseModel, above: str = "") -> Iterator[str]:
    """The paths of all settings that are numbers."""
    for name in type(section).model_fields:
        value, path = getattr(section, name), f"{above}{name}"
        if isinstance(value, BaseModel):
            yield from numbers_in(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path


NUMBERS = sorted(numbers_in(Settings()))


def value_at(settings: Any, path: str) -> Any:
    for name in path.split("."):
        settings = getattr(settings, name)
    return settings


def incremented(section: BaseModel, path: str) -> Any:
    """A copy with the number at `path` greater by one."""
    name, _, rest = path.partition(".")
    value = getattr(section, name)
    return section.model_copy(update={name: incremented(value, rest) if rest else value + 1})


def camel(path: str) -> str:
    return ".".join(
        first + "".join(part.title() for part in rest) for first, *rest in (name.split("_") for name in path.split("."))
    )


PATHS = st.sets(st.sampled_from(NUMBERS), max_size=6)


@given(read=PATHS, changed=PATHS)
def test_exactly_what_is_read_and_changes_needs_a_restart(read: set[str], changed: set[str]) -> None:
    reader, after = SettingsReader(Settings()), Settings()
    reader.read(lambda settings: [value_at(settings, path) for path in sorted(read)])
    for path in changed:
        after = incremented(after, path)
    assert set(reader.needing_restart(after)) == {camel(path) for path in read & changed}
