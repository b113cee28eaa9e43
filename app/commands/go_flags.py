"""The flags of the Go pickers, so that a command line of theirs starts this one.

Each sets what it is called here, has no effect and says so, or can't be served and says that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from app.settings.errors import UsageError

_FINEST_INFO = 3
"""Verbosity above which theirs logs for debugging."""


class Flag(NamedTuple):
    """A flag that has a setting here."""

    path: str
    """The setting."""
    help: str
    read: Callable[[str], str] = json.dumps
    """From the flag's value to the setting's, as YAML. Raises `ValueError`."""
    switch: bool = False
    """Whether it may stand without a value, for true."""


def _truth(text: str) -> str:
    known = {"true": "true", "1": "true", "t": "true", "false": "false", "0": "false", "f": "false"}
    if text.lower() not in known:
        raise ValueError("expected true or false")
    return known[text.lower()]


def _untruth(text: str) -> str:
    return "false" if _truth(text) == "true" else "true"


def _number(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("expected a number")
    return text


def _size(text: str) -> str:
    return json.dumps(text[:-1] if text[-1:] in ("B", "b") else text)


def _level(text: str) -> str:
    if text.lstrip("-").isdigit():
        return "debug" if int(text) > _FINEST_INFO else "info"
    return {"warn": "warning", "panic": "error", "dpanic": "error", "fatal": "error"}.get(text.lower(), text.lower())


def _format(text: str) -> str:
    return text.lower()


FLAGS: Mapping[str, Flag] = {
    "grpc-port": Flag("transports.extProc.port", "port of the endpoint picker", _number),
    "grpc-health-port": Flag("transports.extProc.healthPort", "port of its health service", _number),
    "grpc-max-recv-msg-size": Flag("transports.extProc.limits.messageBytes", "largest gRPC message", _size),
    "metrics-port": Flag("transports.admin.port", "port of metrics, probes and debug pages", _number),
    "pool-name": Flag("pool.name", "what the pool is called in metrics"),
    "secure-serving": Flag("transports.extProc.tls.enabled", "whether TLS is spoken", _truth, switch=True),
    "disable-endpoint-subset-filter": Flag(
        "transports.extProc.subset", "do not heed the proxy's subset of endpoints", _untruth, switch=True
    ),
    "emit-endpoint-scores": Flag(
        "transports.extProc.endpointScores", "tell the proxy each endpoint's score", _truth, switch=True
    ),
    "drain-timeout": Flag("shutdown.delay", "how long it serves on after SIGTERM"),
    "refresh-metrics-interval": Flag("pool.scrape.interval", "time between two reads of an endpoint's metrics"),
    "metrics-staleness-threshold": Flag("pool.scrape.staleAfter", "age at which metrics no longer count"),
    "v": Flag("observability.logging.level", "verbosity; from 4 on for debugging", _level),
    "zap-log-level": Flag("observability.logging.level", "the least that is logged", _level),
    "zap-encoder": Flag("observability.logging.format", "json or console", _format),
}

LOGGING = frozenset({"v", "zap-log-level", "zap-encoder", "zap-devel", "zap-stacktrace-level", "zap-time-encoding"})
"""Flags that say nothing of an endpoint picker."""

CERT_PATH = "cert-path"
"""A folder with `tls.crt` and `tls.key`, which are two settings here."""

WITHOUT_EFFECT: Mapping[str, str] = {
    "pool-group": "there is no Kubernetes discovery in this version",
    "pool-namespace": "there is no Kubernetes discovery in this version",
    "enable-cert-reload": "renewed certificates are always noticed",
    "health-checking": "the health service is always there, on both ports",
    "allow-experimental-plugins": "stability is shown, and never forbids a plugin",
    "refresh-prometheus-metrics-interval": "the pool's metrics are those of the moment they are read",
    "grpc-max-send-msg-size": "there is no limit",
    "enable-grpc-stream-metrics": "there are no metrics of streams in this version",
    "enable-pprof": "there are no profiles of a Go program",
    "tracing": "there is no tracing in this version",
    "zap-devel": "zap-encoder and zap-log-level say it all",
    "zap-stacktrace-level": "only faults of the program itself are logged with a stack",
    "zap-time-encoding": "times are ISO 8601",
}
"""Flags that change nothing, with the reason."""

REFUSED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ha-enable-leader-election": ("replicas do not elect a leader in this version", ("false",)),
    "endpoint-selector": ("name endpoints in pool.endpoints, or use the file-discovery plugin", ("",)),
    "endpoint-target-ports": ("name endpoints in pool.endpoints, or use the file-discovery plugin", ("",)),
    "metrics-endpoint-auth": ("metrics are read without a token; transports.admin.bind says from where", ("false",)),
    "metrics-cert-dir": ("the admin port speaks no TLS in this version", ("",)),
    "metrics-client-ca-file": ("the admin port speaks no TLS in this version", ("",)),
    "tls-min-version": ("TLS 1.2 is the least", ("", "VersionTLS10", "VersionTLS11", "VersionTLS12")),
    "tls-cipher-suites": ("the suites are those of the gRPC library", ("",)),
    "total-queued-requests-metric": ("parameters of the core-metrics-extractor say it", ("",)),
    "total-running-requests-metric": ("parameters of the core-metrics-extractor say it", ("",)),
    "kv-cache-usage-percentage-metric": ("parameters of the core-metrics-extractor say it", ("",)),
    "lora-info-metric": ("parameters of the core-metrics-extractor say it", ("",)),
    "cache-info-metric": ("parameters of the core-metrics-extractor say it", ("",)),
}
"""Flags that can't be ignored: what to do instead, and the values that ask for nothing."""

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
        "flags of the Go pickers", "all but those for logging enable transports.extProc; the others of theirs are known"
    )
    shown = {**{name: flag.help for name, flag in FLAGS.items()}, CERT_PATH: "folder with tls.crt and tls.key"}
    for name in (*shown, *WITHOUT_EFFECT, *REFUSED):
        names = ("-v", "--v") if name == "v" else (f"--{name}",)
        group.add_argument(
            *names,
            dest=_place(name),
            metavar="VALUE",
            nargs="?" if name in _SWITCHES else None,
            const="true" if name in _SWITCHES else None,
            help=shown.get(name, argparse.SUPPRESS),
        )


def sets_of(arguments: argparse.Namespace) -> list[str]:
    """The flags as arguments of `--set`; those without effect are told.

    Raises `UsageError` for what can't be served.
    """
    values = {name: getattr(arguments, _place(name)) for name in (*FLAGS, CERT_PATH, *WITHOUT_EFFECT, *REFUSED)}
    given = {name: value for name, value in values.items() if value is not None}
    for name in given.keys() & REFUSED.keys():
        hint, nothing = REFUSED[name]
        if given[name] not in nothing:
            raise UsageError(f"--{name} is not supported: {hint}")
    for name in sorted(given.keys() & WITHOUT_EFFECT.keys()):
        print(f"pointsman: --{name} has no effect: {WITHOUT_EFFECT[name]}", file=sys.stderr)  # noqa: T201
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


def _place(name: str) -> str:
    return "go_" + name.replace("-", "_")
