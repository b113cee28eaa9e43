"""Reads a file that lists endpoints, in YAML or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from app.domain.addresses import parse_address
from app.domain.endpoint import Endpoint
from app.settings.errors import Faults
from app.settings.keys import normalise
from app.settings.reader import read_yaml
from app.settings.shapes import Shape
from app.settings.tree import Node, locate, node_at, plain
from app.settings.types import Many, Section
from app.settings.validation import report


def _port(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


Port = Annotated[int, BeforeValidator(_port), Field(ge=1, le=65535)]
"""A TCP port. In YAML a number, quoted or not."""


class EndpointEntry(Section):
    """An item of the list."""

    name: str = Field(min_length=1)
    namespace: str = "default"
    address: Annotated[str, AfterValidator(parse_address)]
    port: Port
    metrics_port: Port | None = None
    labels: dict[str, str] = Field(default_factory=dict)

    def endpoint(self) -> Endpoint:
        """The endpoint. A namespace other than the default one is part of its name."""
        name = self.name if self.namespace == "default" else f"{self.namespace}/{self.name}"
        return Endpoint(name, self.address, self.port, self.labels, self.metrics_port)


E = TypeVar("E", bound=EndpointEntry)


class EndpointsFile(Section, Generic[E]):
    """The file."""

    endpoints: Many[E]


def read_endpoints_file(
    content: bytes, source: str, faults: Faults, model: type[EndpointsFile[E]]
) -> Sequence[tuple[E, Node]]:
    """The entries in `content`, each with its place in the file. Errors are added to `faults`; the result may then be
    incomplete or empty.

    `source` is the name of the file in errors. `model` decides which keys an entry may have, such as
    `EndpointsFile[EndpointEntry]`.
    """
    known = len(faults.errors)
    read = read_yaml(content, source, faults)
    if len(faults.errors) > known:
        return ()
    tree = normalise(read, Shape("model", model=model), faults, lambda *_: "")
    try:
        entries = model.model_validate(plain(tree)).endpoints
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            report(fault, tree, faults, model=model)
        return ()
    _report_duplicates(entries, tree, faults)
    return [(entry, node_at(tree, ("endpoints", index)) or tree) for index, entry in enumerate(entries)]


def _report_duplicates(entries: Sequence[EndpointEntry], tree: Node, faults: Faults) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.endpoint().name
        if name in seen:
            faults.error(locate(tree, ("endpoints", index, "name")), f"two endpoints have the name {name!r}")
        seen.add(name)
