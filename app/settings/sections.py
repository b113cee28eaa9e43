"""Sections for the endpoints and for the process."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from app.domain.addresses import UNIX, parse_address_or_socket
from app.domain.endpoint import ENGINE_LABEL, Endpoint
from app.settings.types import Duration, Many, SearchRange, Section

# -- endpoints


class EndpointSpec(Section):
    """A static endpoint."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Unique name."""
    address: Annotated[str, AfterValidator(parse_address_or_socket)]
    """IP address or host name, or a Unix socket such as `unix:/run/engine.sock`, which needs no port."""
    port: int = Field(ge=1, le=65535)
    """Port of the API."""
    scheme: Literal["http", "https"] = "http"
    """Protocol of the API. For `https`, `pool.tls` configures certificate verification."""
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of the metrics page; by default `port`."""
    engine: str = "auto"
    """Model server type; `auto` detects it from the metrics."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels for filters to match."""
    enabled: bool = True
    """Whether the endpoint is part of the pool."""

    @model_validator(mode="before")
    @classmethod
    def _default_port_of_socket(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("address")).startswith(UNIX):
            return {"port": 1, **data}  # required, but unused
        return data

    def endpoint(self) -> Endpoint:
        """The endpoint that this describes."""
        labels = self.labels if self.engine == "auto" else {ENGINE_LABEL: self.engine, **self.labels}
        port = 0 if self.address.startswith(UNIX) else self.port
        return Endpoint(self.name, self.address, port, labels, self.metrics_port, self.scheme == "https")


class PoolTls(Section):
    """TLS for endpoints with `scheme: https`."""

    ca_file: str = ""
    """PEM file with the CA certificates to trust; if empty, the system's."""
    cert_file: str = ""
    """PEM file with the client certificate to present; if empty, none is presented."""
    key_file: str = ""
    """PEM file with the private key of the client certificate."""
    insecure_skip_verify: bool = False
    """Whether to skip the verification of endpoint certificates."""

    @model_validator(mode="after")
    def _require_certificate_and_key(self) -> PoolTls:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together")
        return self


class Scrape(Section):
    """Scraping of endpoint metrics."""

    interval: Duration = Field(default=1.0, ge=0.01)
    """Time between two scrapes of an endpoint."""
    timeout: Duration = Field(default=1.0, gt=0)
    """Timeout of a scrape."""
    stale_after: Duration = Field(default=5.0, gt=0)
    """Age at which metrics are discarded; the endpoint's load is then unknown, not zero."""


class Models(Section):
    """Detection of the models that each endpoint serves."""

    interval: Duration = Field(default=10.0, ge=0)
    """Time between two requests to `/v1/models` of an endpoint; 0s disables them."""


class PoolSettings(Section):
    """The endpoints and how they are monitored."""

    name: str = Field(default="pool", min_length=1)
    """Name of the pool in metrics."""
    endpoints: Many[EndpointSpec] = ()
    """Static endpoints. A discovery plugin can't be used in addition."""
    tls: PoolTls = PoolTls()
    """TLS for endpoints with `scheme: https`."""
    scrape: Scrape = Scrape()
    """Scraping of endpoint metrics."""
    models: Models = Models()
    """Detection of the models that each endpoint serves."""

    @property
    def static_endpoints(self) -> tuple[Endpoint, ...]:
        """The configured endpoints that are enabled."""
        return tuple(spec.endpoint() for spec in self.endpoints if spec.enabled)


class Routing(Section):
    """Request processing."""

    producer_deadline: Duration = Field(default=0.4, gt=0)
    """Time for all fact producers together; decisions are made without facts that are late."""


# -- the process


class Logging(Section):
    """Logging to standard error."""

    format: Literal["json", "console"] = "json"
    """`json` for log collectors, `console` for terminals."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level to log: `debug`, `info`, `warning` or `error`."""
    access: bool = False
    """Whether to log one line per request, with the picked endpoint."""
    prefixes: bool = False
    """Whether these lines have hashes of the prompt's beginning, by which `pointsman replay` knows what is shared."""


class Observability(Section):
    """Logging."""

    logging: Logging = Logging()
    """Logging to standard error."""


class Shutdown(Section):
    """Graceful shutdown on SIGTERM. A second SIGTERM exits immediately."""

    delay: Duration = Field(default=0.0, ge=0)
    """Time between reporting not ready and closing the listeners. Load balancers need it to stop sending requests."""
    timeout: Duration = Field(default=30.0, ge=0)
    """Time for requests in flight to complete; those that remain are aborted."""


class Reload(Section):
    """Configuration reload without a restart. SIGHUP and `POST /-/reload` trigger a reload at any time."""

    watch: bool = True
    """Whether to reload when configuration, plugin or certificate files change."""
    settle: Duration = Field(default=0.5, gt=0)
    """Time without further changes before changed files are read. A file may be written in several steps."""


class Tune(Section):
    """What `pointsman tune` searches. It has no effect on serving."""

    parameters: dict[str, SearchRange] = Field(default_factory=dict)
    """Ranges by the path of a value, as in `--set`: `0.1..10`, `1..64` or `[16, 64]`."""


class Simulation(Section):
    """Simulated model servers in this process, for demos and tests."""

    servers: int = Field(default=0, ge=0, le=100)
    """Number of servers, which are added to the pool; 0 disables the simulation."""
    model: str = Field(default="demo", min_length=1)
    """Name of the model that they serve."""
    adapters: Many[str] = ()
    """Names of LoRA adapters that they serve in addition."""
    seed: int = Field(default=0, ge=0)
    """Seed of the generated text; the same seed gives the same responses."""
    max_num_seqs: int = Field(default=16, ge=1)
    """Maximum number of requests in a batch; further ones wait."""
    num_gpu_blocks: int = Field(default=4096, ge=8)
    """Number of KV-cache blocks, of 16 tokens each."""
    prefill_tokens_per_second: float = Field(default=8000.0, gt=0)
    """Speed of processing prompts."""
    decode_tokens_per_second: float = Field(default=60.0, gt=0)
    """Speed of generating a response, per request."""
    early_heads: bool = False
    """Whether heads of event streams are sent at accept, as vLLM does, and not with the first token."""
