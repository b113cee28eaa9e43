"""From settings to the plain options that each part takes."""

from __future__ import annotations

from app.fleet.monitor import MonitorOptions
from app.settings.schema import Settings
from app.transports.admin.server import AdminListen
from app.transports.http.handler import Limits
from app.transports.http.server import Listen


def monitor_options(settings: Settings) -> MonitorOptions:
    """How the fleet is watched."""
    scrape, models = settings.pool.scrape, settings.pool.models
    return MonitorOptions(interval=scrape.interval, timeout=scrape.timeout, models_interval=models.interval)


def limits(settings: Settings) -> Limits:
    """What clients may send."""
    http = settings.transports.http
    return Limits(http.limits.body_bytes, http.timeouts.body, http.limits.in_flight)


def timeouts(settings: Settings) -> dict[str, float]:
    """How long is waited for endpoints."""
    times = settings.transports.http.timeouts
    return {"connect": times.connect, "response": times.response, "idle": times.idle}


def http_listen(settings: Settings) -> Listen:
    """Where the router listens."""
    http = settings.transports.http
    return Listen(http.bind, http.port, http.limits.header_bytes, http.timeouts.keep_alive)


def admin_listen(settings: Settings) -> AdminListen:
    """Where the admin pages listen."""
    admin = settings.transports.admin
    return AdminListen(admin.bind, admin.port, admin.allow_from)
