"""Reading a file of endpoints: what an entry may have, and where each error is."""

from __future__ import annotations

import pytest

from app.domain.endpoint import Endpoint
from app.settings.endpoints_file import EndpointEntry, EndpointsFile, read_endpoints_file
from app.settings.errors import Faults
from app.settings.tree import locate


class Priced(EndpointEntry):
    """An entry with a key of its own."""

    price: float = 0.0


def errors_in(text: str) -> list[str]:
    faults = Faults()
    read_endpoints_file(text.encode(), "e.yaml", faults, EndpointsFile[EndpointEntry])
    return [str(fault) for fault in faults.all]


def test_every_key_of_an_entry_is_read() -> None:
    text = "endpoints: [{name: a, namespace: n, address: h, port: '80', metrics-port: 81, labels: {x: y}}]"
    faults = Faults()
    ((entry, _),) = read_endpoints_file(text.encode(), "e.yaml", faults, EndpointsFile[EndpointEntry])
    assert not faults.all
    assert entry.endpoint().same_as(Endpoint("n/a", "h", 80, {"x": "y"}, 81))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "e.yaml:1:1: the key 'endpoints' is missing"),
        ("endpoints:\n  - name: a\n    name: b", "e.yaml:3:5: endpoints[0].name: duplicate key 'name', first at line 2"),
        ("endpoints:\n  - {name: a, address: h, port: 1, metricPort: 2}", "e.yaml:2:36: endpoints[0].metricPort: unknown key 'metricPort'; did you mean 'metricsPort'?"),
        ("endpoints:\n  - {name: 7, address: h, port: 1}", "e.yaml:2:6: endpoints[0].name: expected text, found 7; quote it"),
        ("endpoints:\n  - {name: a, address: h, port: 0}", "e.yaml:2:27: endpoints[0].port: expected a number from 1 to 65535, found 0"),
        ("endpoints:\n  - {name: a, address: h, port: '65536'}", "e.yaml:2:27: endpoints[0].port: expected a number from 1 to 65535, found the text '65536'"),
        ("endpoints:\n  - {name: a, address: h, port: http}", "e.yaml:2:27: endpoints[0].port: expected a whole number, found the text 'http'"),
        ("endpoints:\n  - {name: a, address: h}", "e.yaml:2:5: endpoints[0]: the key 'port' is missing"),
        ("endpoints:\n  - {name: n/a, address: h, port: 1}\n  - {name: a, namespace: n, address: h, port: 1}", "e.yaml:3:6: endpoints[1].name: two endpoints have the name 'n/a'"),
        ('{"endpoints": [\n  {"name": "a", "address": "h:1", "port": 1}]}', "e.yaml:2:17: endpoints[0].address: expected an IP address or a host name"),
    ],
)  # fmt: skip
def test_an_error_has_its_place(text: str, error: str) -> None:
    (found,) = errors_in(text)
    assert found.startswith(error)


def test_all_errors_are_found_at_once() -> None:
    assert len(errors_in("endpoints:\n  - {name: a}\n  - {port: 0, more: 1}")) == 6


def test_faults_from_elsewhere_are_no_errors_of_the_file() -> None:
    faults = Faults()
    read_endpoints_file(b"endpoints: [", "other.yaml", faults, EndpointsFile[EndpointEntry])
    text = b"endpoints: [{name: a, address: h, port: 1}]"
    assert len(read_endpoints_file(text, "e.yaml", faults, EndpointsFile[EndpointEntry])) == 1


def test_a_model_can_add_keys_and_each_entry_comes_with_its_place() -> None:
    text = b"endpoints:\n  - {name: a, address: h, port: 1}\n  - {name: b, address: h, port: 1, price: 2}\n"
    faults = Faults()
    read = read_endpoints_file(text, "e.yaml", faults, EndpointsFile[Priced])
    assert [entry.price for entry, _ in read] == [0, 2]
    assert [str(locate(node, ("price",))) for _, node in read] == ["e.yaml:2:5", "e.yaml:3:36"]
