"""Loaded configurations: settings, origins, faults."""

from __future__ import annotations

import pytest

from app.settings.errors import ConfigurationError
from app.settings.tree import plain

from .given import configuration


def test_an_empty_configuration_has_the_defaults() -> None:
    found = configuration("").settings
    assert (found.transports.http.port, found.pool.scrape.interval, found.shutdown.timeout) == (8080, 1.0, 30.0)


def test_the_origin_of_a_value_is_where_it_is_written() -> None:
    found = configuration("pool:\n  scrape:\n    stale-after: 9s\n")
    assert str(found.origin("pool", "scrape", "staleAfter")) == "--config-text:3:5"


def test_the_origin_of_a_missing_value_is_its_section() -> None:
    assert str(configuration("pool:\n  scrape: {}\n").origin("pool", "scrape", "timeout")) == "--config-text:2:3"


def test_the_layers_as_written_are_kept_next_to_the_valid_values() -> None:
    found = configuration("plugins: [{type: 5}, {type: a}]")
    assert plain(found.written) == {"plugins": [{"type": 5}, {"type": "a"}]}
    assert plain(found.tree) == {"plugins": [{"type": "a"}]}


def test_all_errors_are_raised_at_once() -> None:
    with pytest.raises(ConfigurationError) as error:
        configuration("kind: Pod\nshutdown: 5\n").require_no_errors()
    assert [fault.origin.line for fault in error.value.faults] == [1, 2]


def test_a_configuration_error_includes_the_warnings() -> None:
    with pytest.raises(ConfigurationError) as error:
        configuration("apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: Pod").require_no_errors()
    assert [fault.severity for fault in error.value.faults] == ["warning", "error"]


@pytest.mark.parametrize(
    "text", ["", "apiVersion: inference.networking.x-k8s.io/v1alpha1"], ids=["nothing", "a warning"]
)
def test_without_errors_nothing_is_raised(text: str) -> None:
    configuration(text).require_no_errors()


def test_faults_of_reading_merging_and_validation_are_collected() -> None:
    found = configuration("kind: a\nkind: b\npol: {}\nshutdown: 5\nschedulingProfiles: [{name: a, before: b}]\n")
    assert [fault.origin.line for fault in found.faults.errors] == [1, 2, 3, 4, 5]
