"""Our own sections on the fleet and the process."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from app.domain.addresses import UNIX, parse_address_or_socket
from app.settings.types import Duration, Many, Section

# -- the fleet


class EndpointSpec(Section):
    """One endpoint of a pool that is written down here."""

    identity: ClassVar = ("name",)

    name: str = Field(min_length=1)
    """Unique name."""
    address: Annotated[str, AfterValidator(parse_address_or_socket)]
    """IP address or host name, or a Unix socket as `unix:/run/engine.sock`, which has no port."""
    port: int = Field(ge=1, le=65535)
    """Port of its API."""
    scheme: Literal["http", "https"] = "http"
    """How it is spoken to; `pool.tls` says how it is verified."""
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of its metrics page, if another one."""
    engine: str = "auto"
    """Kind of model server; `auto` tells it by its metrics."""
    labels: dict[str, str] = Field(default_factory=dict)
    """What filters select by."""
    enabled: bool = True
    """Whether it exists."""

    @model_validator(mode="before")
    @classmethod
    def _a_socket_has_no_port(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("address")).startswith(UNIX):
            return {"port": 1, **data}  # which nobody looks at
        return data


class PoolTls(Section):
    """How endpoints of `scheme: https` are verified, and what we show them."""

    ca_file: str = ""
    """PEM file of the authorities to trust instead of the system's."""
    cert_file: str = ""
    """PEM file of our certificate."""
    key_file: str = ""
    """PEM file of its key."""
    insecure_skip_verify: bool = False
    """Trust any certificate."""

    @model_validator(mode="after")
    def _go_together(self) -> PoolTls:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("certFile and keyFile go together")
        return self


class Scrape(Section):
    """Reading the endpoints' metrics."""

    interval: Duration = Field(default=1.0, ge=0.01)
    """Time between two reads of an endpoint."""
    timeout: Duration = Field(default=1.0, gt=0)
    """For one read."""
    stale_after: Duration = Field(default=5.0, gt=0)
    """Age at which metrics no longer count; the endpoint is then unknown, not idle."""


class Models(Section):
    """Knowing which endpoint serves which model."""

    interval: Duration = Field(default=10.0, ge=0)
    """Time between two looks at an endpoint's `/v1/models`; 0s never looks."""


class PoolSettings(Section):
    """The endpoints, and how they are watched."""

    name: str = Field(default="pool", min_length=1)
    """What it is called in metrics."""
    endpoints: Many[EndpointSpec] = ()
    """Endpoints written down here; a discovery plugin comes instead of them."""
    tls: PoolTls = PoolTls()
    """TLS to the endpoints."""
    scrape: Scrape = Scrape()
    """Reading their metrics."""
    models: Models = Models()
    """Knowing their models."""


class Routing(Section):
    """The life of a request."""

    producer_deadline: Duration = Field(default=0.4, gt=0)
    """For all producers of facts together; what is not found by then is done without."""


# -- the process


class Logging(Section):
    """What is logged, to standard error."""

    format: Literal["json", "console"] = "json"
    """`json` for machines, `console` for people."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    access: bool = False
    """One line per request, with the pick."""


class Observability(Section):
    """Logs."""

    logging: Logging = Logging()
    """What is logged."""


class Shutdown(Section):
    """What SIGTERM does; a second one ends at once."""

    delay: Duration = Field(default=0.0, ge=0)
    """Time between not being ready any more and closing the listener, for load balancers to notice."""
    timeout: Duration = Field(default=30.0, ge=0)
    """For requests in flight to end."""


class Reload(Section):
    """Taking over a changed configuration without a restart. SIGHUP and `POST /-/reload` do it at any time."""

    watch: bool = True
    """Whether changes of the configuration's files, and of plugin files that it names, are noticed."""
    settle: Duration = Field(default=0.5, gt=0)
    """How long files must stay as they are before they are read: some are written in several steps."""


class Simulation(Section):
    """Simulated model servers in this process, as a fleet to try things on."""

    servers: int = Field(default=0, ge=0, le=100)
    """How many; they join the pool."""
    model: str = Field(default="demo", min_length=1)
    """The model they serve."""
    adapters: Many[str] = ()
    """LoRA adapters they serve as well."""
    seed: int = Field(default=0, ge=0)
    """The same seed gives the same answers."""
    max_num_seqs: int = Field(default=16, ge=1)
    """Requests in a batch; more wait."""
    num_gpu_blocks: int = Field(default=4096, ge=8)
    """KV-cache blocks of 16 tokens."""
    prefill_tokens_per_second: float = Field(default=8000.0, gt=0)
    """Speed of reading a prompt."""
    decode_tokens_per_second: float = Field(default=60.0, gt=0)
    """Speed of writing an answer, per request."""
