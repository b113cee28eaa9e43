"""The flags of the Go pickers, so that their command lines work here.

Each flag sets the corresponding setting, is ignored with a message, or is rejected with a hint.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from app.settings.errors import UsageError

_MAX_INFO_VERBOSITY = 3
"""The Go pickers log at the level debug above this verbosity."""


class Flag(NamedTuple):
    """A flag for which there is a setting."""

    path: str
    """The path of the setting."""
    help: str
    read: Callable[[str], str] = json.dumps
    """Converts the flag's value to the setting's, as YAML. Raises `ValueError`."""
    switch: bool = False
    """Whether the value may be left out, which means true."""


def _boolean(text: str) -> str:
    known = {"true": "true", "1": "true", "t": "true", "false": "false", "0": "false", "f": "false"}
    if text.lower() not in known:
        raise ValueError("expected true or false")
    return known[text.lower()]


def _negated(text: str) -> str:
    return "false" if _boolean(text) == "true" else "true"


def _number(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("expected a number")
    return text


def _size(text: str) -> str:
    return json.dumps(text[:-1] if text[-1:] in ("B", "b") else text)


def _level(text: str) -> str:
    if text.lstrip("-").isdigit():
        return "debug" if int(text) > _MAX_INFO_VERBOSITY else "info"
    return {"warn": "warning", "panic": "error", "dpanic": "error", "fatal": "error"}.get(text.lower(), text.lower())


def _format(text: str) -> str:
    return text.lower()


FLAGS: Mapping[str, Flag] = {
    "grpc-port": Flag("transports.extProc.port", "port of the endpoint picker", _number),
    "grpc-health-port": Flag("transports.extProc.healthPort", "port of its health service", _number),
    "grpc-max-recv-msg-size": Flag("transports.extProc.limits.messageBytes", "maximum size of a gRPC message", _size),
    "metrics-port": Flag("transports.admin.port", "port of metrics, probes and debug pages", _number),
    "pool-name": Flag("pool.name", "name of the pool in metrics"),
    "secure-serving": Flag("transports.extProc.tls.enabled", "whether to use TLS", _boolean, switch=True),
    "disable-endpoint-subset-filter": Flag(
        "transports.extProc.subset", "ignore the proxy's subset of endpoints", _negated, switch=True
    ),
    "emit-endpoint-scores": Flag(
        "transports.extProc.endpointScores", "send the score of each endpoint to the proxy", _boolean, switch=True
    ),
    "drain-timeout": Flag("shutdown.delay", "how long to keep serving after SIGTERM"),
    "refresh-metrics-interval": Flag("pool.scrape.interval", "interval between scrapes of an endpoint's metrics"),
    "metrics-staleness-threshold": Flag("pool.scrape.staleAfter", "age at which metrics are considered unknown"),
    "v": Flag("observability.logging.level", "verbosity; the level is debug from 4 on", _level),
    "zap-log-level": Flag("observability.logging.level", "minimum level", _level),
    "zap-encoder": Flag("observability.logging.format", "json or console", _format),
}

LOGGING = frozenset({"v", "zap-log-level", "zap-encoder", "zap-devel", "zap-stacktrace-level", "zap-time-encoding"})
"""Flags that do not enable `transports.extProc`."""

CERT_PATH = "cert-path"
"""The flag for a folder with `tls.crt` and `tls.key`, for which there are two settings."""

IGNORED: Mapping[str, str] = {
    "pool-group": "there is no Kubernetes discovery in this version",
    "pool-namespace": "there is no Kubernetes discovery in this version",
    "enable-cert-reload": "renewed certificates are always reloaded",
    "health-checking": "the health service is always enabled, on both ports",
    "allow-experimental-plugins": "plugins of any stability are allowed",
    "refresh-prometheus-metrics-interval": "the pool's metrics are computed whenever they are scraped",
    "grpc-max-send-msg-size": "there is no limit",
    "enable-grpc-stream-metrics": "there are no stream metrics in this version",
    "enable-pprof": "there is no Go runtime to profile",
    "tracing": "there is no tracing in this version",
    "zap-devel": "zap-encoder and zap-log-level set everything",
    "zap-stacktrace-level": "only internal errors are logged with a stack trace",
    "zap-time-encoding": "times are ISO 8601",
}
"""Flags without effect, with the reason."""

UNSUPPORTED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ha-enable-leader-election": ("replicas do not elect a leader in this version", ("false",)),
    "endpoint-selector": ("list endpoints in pool.endpoints, or use the file-discovery plugin", ("",)),
    "endpoint-target-ports": ("list endpoints in pool.endpoints, or use the file-discovery plugin", ("",)),
    "metrics-endpoint-auth": ("metrics need no token; restrict access by transports.admin.bind", ("false",)),
    "metrics-cert-dir": ("the admin server has no TLS in this version", ("",)),
    "metrics-client-ca-file": ("the admin server has no TLS in this version", ("",)),
    "tls-min-version": ("the minimum is TLS 1.2", ("", "VersionTLS10", "VersionTLS11", "VersionTLS12")),
    "tls-cipher-suites": ("the gRPC library's cipher suites are used", ("",)),
    "total-queued-requests-metric": ("set it in the parameters of core-metrics-extractor", ("",)),
    "total-running-requests-metric": ("set it in the parameters of core-metrics-extractor", ("",)),
    "kv-cache-usage-percentage-metric": ("set it in the parameters of core-metrics-extractor", ("",)),
    "lora-info-metric": ("set it in the parameters of core-metrics-extractor", ("",)),
    "cache-info-metric": ("set it in the parameters of core-metrics-extractor", ("",)),
}
"""Flags that must not be ignored: a hint, and the values that are accepted since they ask for nothing."""

_SWITCHES = frozenset(
    {
        *("enable-cert-reload", "health-checking", "allow-experimental-plugins", "enable-grpc-stream-metrics"),
        *("enable-pprof", "tracing", "zap-devel", "ha-enable-leader-election", "metrics-endpoint-auth"),
        *(name for name, flag in FLAGS.items() if flag.switch),
    }
)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    group = parser.add_argument_group(
        "flags of the Go pickers",
        "all except those for logging enable transports.extProc; their other flags are known too",
    )
    shown = {**{name: flag.help for name, flag in FLAGS.items()}, CERT_PATH: "folder with tls.crt and tls.key"}
    for name in (*shown, *IGNORED, *UNSUPPORTED):
        names = ("-v", "--v") if name == "v" else (f"--{name}",)
        group.add_argument(
            *names,
            dest=_destination(name),
            metavar="VALUE",
            nargs="?" if name in _SWITCHES else None,
            const="true" if name in _SWITCHES else None,
            help=shown.get(name, argparse.SUPPRESS),
        )


def sets_of(arguments: argparse.Namespace) -> list[str]:
    """The flags as arguments of `--set`. Prints a message for each flag without effect.

    Raises `UsageError` for unsupported flags and invalid values.
    """
    values = {name: getattr(arguments, _destination(name)) for name in (*FLAGS, CERT_PATH, *IGNORED, *UNSUPPORTED)}
    given = {name: value for name, value in values.items() if value is not None}
    for name in given.keys() & UNSUPPORTED.keys():
        hint, accepted = UNSUPPORTED[name]
        if given[name] not in accepted:
            raise UsageError(f"--{name} is not supported: {hint}")
    for name in sorted(given.keys() & IGNORED.keys()):
        print(f"pointsman: --{name} has no effect: {IGNORED[name]}", file=sys.stderr)  # noqa: T201
    enabling = ["transports.extProc.enabled=true"] if given.keys() - LOGGING else []
    return [*enabling, *_settings(given)]


def _settings(given: Mapping[str, str]) -> Iterator[str]:
    for name, flag in FLAGS.items():
        if name not in given:
            continue
        try:
            yield f"{flag.path}={flag.read(given[name])}"
        except ValueError as error:
            raise UsageError(f"--{name} {given[name]}: {error}") from None
    if given.get(CERT_PATH):
        for key, file in (("certFile", "tls.crt"), ("keyFile", "tls.key")):
            yield f"transports.extProc.tls.{key}={json.dumps(f'{given[CERT_PATH]}/{file}')}"


def _destination(name: str) -> str:
    return "go_" + name.replace("-", "_")
