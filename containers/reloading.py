"""How each part of the process goes from one configuration to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from dependency_injector import providers
from prometheus_client import CollectorRegistry

from app.extension import DiscoveryError, MetricsRegistry
from app.lifecycle import Part, Parts
from app.observability.logging import set_up_logging
from app.planning.plan import Plan
from app.reload import NeedsRestartError, Step
from app.settings.schema import Settings
from app.transports.tls import load_certificate
from containers import options, parts
from containers.building import build_all
from containers.generation import GenerationContainer, build_generation, pipeline_of

if TYPE_CHECKING:
    from containers.application import ApplicationContainer
    from containers.assembly import Checked

FIRST_LIST = 10.0
"""Seconds that another discovery has to give its first list; later reloads wait behind it."""

End = Callable[[], Awaitable[None]]

FIXED = (
    "simulation",
    "pool.name",
    "transports.http.enabled",
    "transports.http.limits.headerBytes",
    "transports.http.timeouts.keepAlive",
    "transports.http.tls.clientCaFile",
    "transports.extProc.enabled",
    "transports.extProc.healthPort",
    "transports.extProc.tls.enabled",
    "transports.extProc.tls.clientCaFile",
    "transports.extProc.limits.messageBytes",
    "transports.envoy",
    "transports.admin.enabled",
    "reload.watch",
)
"""What a running process can't change."""

FIXED_WITH_ENVOY = (
    "transports.http.bind",
    "transports.http.port",
    "transports.http.retries",
    "transports.http.limits.bodyBytes",
    "transports.http.limits.headerBytes",
    "transports.http.timeouts",
    "pool.tls",
)
"""What a running Envoy of our own can't change either."""


def no_next_configuration() -> Never:
    """Of a container that was not made from sources."""
    raise RuntimeError("this container was not made from a configuration that can be loaded again")


def watched_files_of(app: ApplicationContainer) -> Callable[[], Collection[Path]]:
    """The files that make up the configuration: its own, and those of plugins that it names by file."""

    def files() -> Collection[Path]:
        plan: Plan = app.plan()
        addresses = (plugin.type_name.rpartition(":")[0] for plugin in plan.plugins.values())
        plugin_files = (Path(path) for path in addresses if path.endswith(".py"))
        return [*app.configuration_files(), *plugin_files, *map(Path, tls_files(app.settings()))]

    return files


def tls_files(settings: Settings) -> Sequence[str]:
    """The files of certificates and keys, which may be renewed in place."""
    http, ext_proc, pool = settings.transports.http.tls, settings.transports.ext_proc.tls, settings.pool.tls
    files = (
        *(http.cert_file, http.key_file),
        *(ext_proc.cert_file, ext_proc.key_file, ext_proc.client_ca_file),
        *(pool.ca_file, pool.cert_file, pool.key_file),
    )
    return [file for file in files if file]


def settle_of(app: ApplicationContainer) -> Callable[[], float]:
    """How long files must rest, as configured now."""
    return lambda: float(app.settings().reload.settle)


def steps_of(app: ApplicationContainer) -> Callable[[Checked], Sequence[Step] | None]:
    """What it takes to go from what `app` runs on to another configuration; None when that is the same."""

    def steps(checked: Checked) -> Sequence[Step] | None:
        before: Settings = app.settings()
        after = checked.configuration.settings
        kept = kept_plugins(app.plan(), app.generation(), checked.plan)
        same_plugins = len(kept) == len(checked.plan.plugins) == len(app.plan().plugins)
        if before == after and same_plugins and not tls_files(after):
            return None
        refuse_fixed(before, after)
        return _Change(app, checked, kept).steps()

    return steps


def refuse_fixed(before: Settings, after: Settings) -> None:
    """Raises `NeedsRestartError` for what a running process can't change."""
    old, new = (settings.model_dump(by_alias=True) for settings in (before, after))
    with_envoy = before.transports.envoy.enabled
    fixed = (*FIXED, *FIXED_WITH_ENVOY) if with_envoy else FIXED
    changed = [path for path in dict.fromkeys(fixed) if _at(old, path) != _at(new, path)]
    if with_envoy and options.https_addresses(before) != options.https_addresses(after):
        changed.append("pool.endpoints of scheme https")
    if bool(before.transports.http.tls.cert_file) != bool(after.transports.http.tls.cert_file):
        changed.append("transports.http.tls.certFile")
    if changed:
        raise NeedsRestartError(changed)


def _at(data: Any, path: str) -> object:
    for key in path.split("."):
        data = data[key]
    return data


def kept_plugins(old: Plan, generation: GenerationContainer, new: Plan) -> Mapping[str, object]:
    """The plugins that go on with all they know: of the same class, parameters and references, transitively."""
    same: dict[str, bool] = {}

    def unchanged(name: str) -> bool:
        if name not in same:
            before, after = old.plugins.get(name), new.plugins[name]
            same[name] = (
                before is not None
                and before.type.cls is after.type.cls
                and before.params == after.params
                and all(unchanged(reference.name) for reference in after.references)
            )
        return same[name]

    built: Mapping[str, Any] = generation.plugins.providers  # type: ignore[assignment]
    return {name: built[name]() for name in new.plugins if unchanged(name)}


class _Change:
    """One change from the configuration that an application runs on to another."""

    def __init__(self, app: ApplicationContainer, checked: Checked, kept: Mapping[str, object]) -> None:
        self._app = app
        self._checked = checked
        self._settings = checked.configuration.settings
        self._kept = kept
        self._registries: dict[str, CollectorRegistry] = {}
        self._observers = parts.observers(
            app.request_metrics(), app.access_log(), access=self._settings.observability.logging.access
        )
        # the generation outlives this change and must not keep it alive, nor what was before
        services = {**app.services(), MetricsRegistry: partial(_registry_of, self._registries)}
        self._generation = build_generation(checked.plan, services, self._observers, kept)
        self._fresh = Parts(())
        self._dropped: Sequence[Part] = ()
        self._end_discovery: End = _nothing
        self._close_http: End = _nothing
        self._close_admin: End = _nothing

    def steps(self) -> Sequence[Step]:
        """In the order they are prepared and committed."""
        discovery, http, admin = (
            self._app.discovery(), self._app.http_server().listener, self._app.admin_server().listener,
        )  # fmt: skip
        return (
            Step("plugins", self._start_plugins, self._stop_fresh, self._swap, self._retire_plugins),
            Step("discovery", self._prepare_discovery, discovery.abandon, self._swap_discovery, self._retire_discovery),
            Step("http", self._prepare_http, http.abandon, self._swap_http, self._retire_http),
            *self._ext_proc_steps(),
            Step("admin", self._prepare_admin, admin.abandon, self._swap_admin, self._retire_admin),
            Step("the rest", commit=self._change_values),
        )

    # -- plugins

    async def _start_plugins(self) -> None:
        build_all(self._generation, self._checked.configuration)
        self._pipeline = pipeline_of(self._generation)
        self._fresh = Parts(part for part in parts.plugin_parts(self._generation) if part.name not in self._kept)
        await self._fresh.start()

    async def _stop_fresh(self) -> None:
        await self._fresh.stop()

    def _swap(self) -> None:
        app = self._app
        self._before = app.router().pipeline
        app.router().pipeline = self._pipeline
        alive = app.plugins_alive()
        self._dropped = [part for part in alive.started if part.name not in self._kept]
        alive.take(self._fresh.give_away({part.name for part in self._fresh.started}))
        app.plugin_metrics().change(self._kept.keys(), self._registries)
        app.monitor().change(parts.bindings_of(self._generation), options.monitor_options(self._settings))
        app.generation.reset_override()
        app.generation.reset()  # it keeps what it made, and that is the first generation
        for provider, value in (
            (app.generation, providers.Object(self._generation)),
            (app.settings, providers.Object(self._settings)),
            (app.plan, providers.Object(self._checked.plan)),
            (app.effective, providers.Callable(self._checked.effective)),
        ):
            provider.reset_override()
            provider.override(value)

    async def _retire_plugins(self) -> None:
        """Waits for the requests that began before; then nobody uses the plugins that were dropped."""
        await self._before.open.ended()
        await self._app.plugins_alive().stop(self._dropped)

    # -- the fleet

    async def _prepare_discovery(self) -> None:
        static_endpoints = parts.static_endpoints(self._settings.pool.endpoints, self._app.simulation())
        try:
            async with asyncio.timeout(FIRST_LIST):
                await self._app.discovery().prepare(static_endpoints, parts.discovery_of(self._generation))
        except TimeoutError:
            raise DiscoveryError(f"no endpoints within {FIRST_LIST:g} s") from None

    def _swap_discovery(self) -> None:
        self._app.pool().count_as_stale_after(self._settings.pool.scrape.stale_after)
        self._end_discovery = self._app.discovery().commit()

    async def _retire_discovery(self) -> None:
        await self._end_discovery()

    # -- transports

    async def _prepare_http(self) -> None:
        self._server_tls = options.server_tls(self._settings)  # whose files are read for whether they can be
        self._client_tls = options.client_tls(self._settings)
        await self._app.http_server().listener.prepare(options.http_listen(self._settings))

    def _swap_http(self) -> None:
        self._close_http = self._app.http_server().listener.commit()
        self._app.admission().limits = options.limits(self._settings)
        self._app.upstream().patience = options.patience(self._settings)
        self._app.upstream().limits = options.connection_limits(self._settings)
        self._swap_tls()

    def _swap_tls(self) -> None:
        tls, running = self._settings.transports.http.tls, self._app.http_server().tls
        if running is not None:
            load_certificate(running, tls.cert_file, tls.key_file)
        if self._settings.transports.envoy.enabled and tls.cert_file:
            self._app.envoy().renew_certificate()
        self._app.upstream().tls = self._client_tls
        self._app.model_lists().tls = self._client_tls

    async def _retire_http(self) -> None:
        await self._close_http()

    def _ext_proc_steps(self) -> Sequence[Step]:
        transports = self._settings.transports
        if not (transports.ext_proc.enabled or transports.envoy.enabled):
            return ()
        module = import_module("containers.ext_proc")
        return (module.step_of(self._app, self._settings),)

    async def _prepare_admin(self) -> None:
        await self._app.admin_server().listener.prepare(options.admin_listen(self._settings).address)

    def _swap_admin(self) -> None:
        self._close_admin = self._app.admin_server().listener.commit()
        self._app.admin_server().allow_from(self._settings.transports.admin.allow_from)

    async def _retire_admin(self) -> None:
        await self._close_admin()

    # -- values

    def _change_values(self) -> None:
        router, settings = self._app.router(), self._settings
        router.retries = settings.transports.http.retries
        router.producer_deadline = settings.routing.producer_deadline
        self._app.lifecycle().drain_delay = settings.shutdown.delay
        logging = settings.observability.logging
        set_up_logging(format=logging.format, level=logging.level)


def _registry_of(registries: dict[str, CollectorRegistry], name: str) -> CollectorRegistry:
    return registries.setdefault(name, CollectorRegistry())


async def _nothing() -> None:
    pass
