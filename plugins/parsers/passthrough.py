"""`passthrough-parser`: every path that no other parser reads."""

from __future__ import annotations

from pointsman import InferenceRequest, PluginParams, RawRequest, plugin
from pointsman.parsing import parse_anything


@plugin("passthrough-parser")
class PassthroughParser:
    """Takes any request as it is. Without a prompt, nothing is known of what an endpoint has cached of it."""

    class Params(PluginParams):
        """How closely it looks."""

        read_model: bool = True
        """Read the model and whether the answer streams out of bodies that are JSON objects."""

    paths = ()

    def __init__(self, params: Params) -> None:
        self._read_model = params.read_model

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request; no body is refused."""
        return parse_anything(raw, read_model=self._read_model)
