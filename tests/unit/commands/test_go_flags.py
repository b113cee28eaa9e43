"""The flags of the Go pickers."""

from __future__ import annotations

import argparse

import pytest

from app.commands import go_flags
from app.settings.errors import UsageError
from app.settings.layers import Sources
from containers.application import check

OURS = "transports.extProc"


def sets(*arguments: str) -> list[str]:
    parser = argparse.ArgumentParser()
    go_flags.add(parser)
    return go_flags.sets_of(parser.parse_args(arguments))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--grpc-port", "19002"], [f"{OURS}.enabled=true", f"{OURS}.port=19002"]),
        (["--grpc-health-port=19003"], [f"{OURS}.enabled=true", f"{OURS}.healthPort=19003"]),
        (["--pool-name", "123"], [f"{OURS}.enabled=true", 'pool.name="123"']),
        (["--secure-serving"], [f"{OURS}.enabled=true", f"{OURS}.tls.enabled=true"]),
        (["--secure-serving=false"], [f"{OURS}.enabled=true", f"{OURS}.tls.enabled=false"]),
        (["--disable-endpoint-subset-filter"], [f"{OURS}.enabled=true", f"{OURS}.subset=false"]),
        (["--emit-endpoint-scores"], [f"{OURS}.enabled=true", f"{OURS}.endpointScores=true"]),
        (["--grpc-max-recv-msg-size", "10MiB"], [f"{OURS}.enabled=true", f'{OURS}.limits.messageBytes="10Mi"']),
        (["--cert-path", "/c"], [f"{OURS}.enabled=true", f'{OURS}.tls.certFile="/c/tls.crt"', f'{OURS}.tls.keyFile="/c/tls.key"']),
        (["-v", "5"], ["observability.logging.level=debug"]),
        (["--v=2"], ["observability.logging.level=info"]),
        (["--v=-1"], ["observability.logging.level=info"]),
        (["--zap-log-level", "warn"], ["observability.logging.level=warning"]),
        (["--zap-encoder", "JSON"], ["observability.logging.format=json"]),
        ([], []),
    ],
)  # fmt: skip
def test_a_flag_sets_the_corresponding_setting(arguments: list[str], expected: list[str]) -> None:
    assert sets(*arguments) == expected


def test_a_whole_command_line_of_theirs_gives_a_configuration_that_loads() -> None:
    given = sets(
        *("--pool-name", "p", "--pool-namespace", "ns", "--grpc-port", "9002", "--metrics-port", "9091", "--v", "4"),
        *("--drain-timeout", "1m30s", "--refresh-metrics-interval", "50ms", "--metrics-staleness-threshold=2s"),
        *("--grpc-max-recv-msg-size", "25MB", "--enable-pprof=false", "--zap-encoder", "console", "--tracing=false"),
    )
    settings = check(Sources(("builtin:default",), None, {}, tuple(given))).configuration.settings
    assert (settings.pool.name, settings.transports.ext_proc.enabled, settings.transports.admin.port) == (
        "p",
        True,
        9091,
    )
    assert (settings.shutdown.delay, settings.pool.scrape.interval, settings.pool.scrape.stale_after) == (90, 0.05, 2)
    assert settings.transports.ext_proc.limits.message_bytes == 25_000_000


@pytest.mark.parametrize("name", go_flags.IGNORED)
def test_a_flag_without_effect_says_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sets(f"--{name}=x")
    assert capsys.readouterr().err == f"pointsman: --{name} has no effect: {go_flags.IGNORED[name]}\n"


@pytest.mark.parametrize("name", go_flags.UNSUPPORTED)
def test_an_unsupported_flag_is_rejected_with_a_hint(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name} is not supported: {go_flags.UNSUPPORTED[name][0]}"):
        sets(f"--{name}", "VersionTLS13")


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, (_, ok) in go_flags.UNSUPPORTED.items() for value in ok]
)
def test_an_unsupported_flag_may_ask_for_nothing(name: str, value: str) -> None:
    assert sets(f"--{name}={value}") == [f"{OURS}.enabled=true"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--grpc-port", "x"], "--grpc-port x: expected a number"),
        (["--secure-serving=maybe"], "--secure-serving maybe: expected true or false"),
    ],
)
def test_an_invalid_value_is_rejected(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sets(*arguments)
