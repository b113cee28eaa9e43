"""`metrics-data-source`: fetches the Prometheus metrics of model servers."""

from __future__ import annotations

import ssl
from typing import Literal

from pydantic import Field, model_validator

from pointsman import Duration, Endpoint, Exposition, HttpClient, PluginParams, ScrapeError, plugin

OK = 200

TIMEOUT = 10.0
"""Seconds for a scrape; the pool's scrape timeout is usually shorter."""


@plugin("metrics-data-source")
class MetricsDataSource:
    """Fetches the metrics page of an endpoint over HTTP."""

    class Params(PluginParams):
        """The location of the page, and TLS."""

        scheme: Literal["http", "https"] = "http"
        """The scheme of the page's URL. Endpoints with `scheme: https` always use https."""
        path: str = Field(default="/metrics", pattern=r"^/\S*$")
        """The path of the page."""
        port: int | None = Field(default=None, ge=1, le=65535)
        """The port of the page. By default the endpoint's `metricsPort`, else its port."""
        insecure_skip_verify: bool = True
        """With https: do not verify the server's certificate."""
        ca_cert_path: str = ""
        """With https and verification: PEM file of the trusted certificate authorities. By default the system's."""
        client_cert_path: str = ""
        """With https: PEM file of the client certificate."""
        client_key_path: str = ""
        """With https: PEM file of the client certificate's key."""
        interval: Duration | None = Field(default=None, ge=0)
        """The time between two scrapes. By default the pool's `scrape.interval`."""

        @model_validator(mode="after")
        def _certificate_has_key(self) -> MetricsDataSource.Params:
            if bool(self.client_cert_path) != bool(self.client_key_path):
                raise ValueError("clientCertPath and clientKeyPath must be given together")
            return self

    def __init__(self, params: Params, http: HttpClient) -> None:
        self._params = params
        self._http = http
        self._tls = _tls(params)
        self.interval = params.interval or None

    async def fetch(self, endpoint: Endpoint) -> Exposition:
        """The endpoint's metrics page."""
        authority = endpoint.metrics_authority
        if self._params.port is not None:
            authority = f"{endpoint.host}:{self._params.port}"
        scheme = "https" if endpoint.tls else self._params.scheme
        url = f"{scheme}://{authority}{self._params.path}"
        options = {"socket": endpoint.socket} if endpoint.socket else {}
        try:
            response = await self._http.get(url, timeout=TIMEOUT, tls=self._tls, **options)
        except ConnectionError as error:
            raise ScrapeError(f"{url}: {error}", unreachable=True) from error
        except OSError as error:
            raise ScrapeError(f"{url}: {str(error) or type(error).__name__}") from error
        if response.status != OK:
            raise ScrapeError(f"{url} responded with status {response.status}")
        return Exposition(response.body)


def _tls(params: MetricsDataSource.Params) -> ssl.SSLContext | bool:
    files = [path for path in (params.ca_cert_path, params.client_cert_path, params.client_key_path) if path]
    if params.scheme == "http" or not files:
        return not params.insecure_skip_verify
    try:
        return _context(params)
    except FileNotFoundError as error:  # the original does not name the file
        raise FileNotFoundError(error.errno, error.strerror, ", ".join(files)) from error


def _context(params: MetricsDataSource.Params) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=params.ca_cert_path or None)
    if params.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if params.client_cert_path:
        context.load_cert_chain(params.client_cert_path, params.client_key_path)
    return context
