"""`metrics-data-source`: the Prometheus page of a model server."""

from __future__ import annotations

import ssl
from typing import Literal

from pydantic import Field, model_validator

from pointsman import Duration, Endpoint, Exposition, HttpClient, PluginParams, ScrapeError, plugin

TIMEOUT = 10.0
"""Seconds after which a connection gives up; the pool's own scrape timeout is usually shorter."""


@plugin("metrics-data-source")
class MetricsDataSource:
    """Reads an endpoint's metrics page over HTTP."""

    class Params(PluginParams):
        """Where the page is."""

        scheme: Literal["http", "https"] = "http"
        """How to read it; an endpoint of `scheme: https` is always read by https."""
        path: str = Field(default="/metrics", pattern=r"^/\S*$")
        """The page's path."""
        port: int | None = Field(default=None, ge=1, le=65535)
        """The page's port, if it is neither the endpoint's port nor its `metricsPort`."""
        insecure_skip_verify: bool = True
        """With https: trust any certificate."""
        ca_cert_path: str = ""
        """With https and verification: PEM file of the authorities to trust."""
        client_cert_path: str = ""
        """With https: PEM file of our certificate."""
        client_key_path: str = ""
        """With https: PEM file of its key."""
        interval: Duration | None = Field(default=None, ge=0)
        """Time between two reads; by default the pool's `scrape.interval`."""

        @model_validator(mode="after")
        def _key_goes_with_certificate(self) -> MetricsDataSource.Params:
            if bool(self.client_cert_path) != bool(self.client_key_path):
                raise ValueError("clientCertPath and clientKeyPath go together")
            return self

    def __init__(self, params: Params, http: HttpClient) -> None:
        self._params = params
        self._http = http
        self._tls = _tls(params)
        self.interval = params.interval or None

    async def fetch(self, endpoint: Endpoint) -> Exposition:
        """The endpoint's page."""
        authority = endpoint.metrics_authority
        if self._params.port is not None:
            authority = f"{endpoint.host}:{self._params.port}"
        scheme = "https" if endpoint.tls else self._params.scheme
        url = f"{scheme}://{authority}{self._params.path}"
        over = {"socket": endpoint.socket} if endpoint.socket else {}
        try:
            response = await self._http.get(url, timeout=TIMEOUT, tls=self._tls, **over)
        except ConnectionError as error:
            raise ScrapeError(f"{url}: {error}", unreachable=True) from error
        except OSError as error:
            raise ScrapeError(f"{url}: {str(error) or type(error).__name__}") from error
        if response.status != 200:  # noqa: PLR2004
            raise ScrapeError(f"{url} answered with status {response.status}")
        return Exposition(response.body)


def _tls(params: MetricsDataSource.Params) -> ssl.SSLContext | bool:
    files = [path for path in (params.ca_cert_path, params.client_cert_path, params.client_key_path) if path]
    if params.scheme == "http" or not files:
        return not params.insecure_skip_verify
    try:
        return _context(params)
    except FileNotFoundError as error:  # it does not say which
        raise FileNotFoundError(error.errno, error.strerror, ", ".join(files)) from error


def _context(params: MetricsDataSource.Params) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=params.ca_cert_path or None)
    if params.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if params.client_cert_path:
        context.load_cert_chain(params.client_cert_path, params.client_key_path)
    return context
