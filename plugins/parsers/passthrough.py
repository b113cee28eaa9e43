"""`passthrough-parser`: accepts requests on every path that no other parser claims."""

from __future__ import annotations

from pointsman import InferenceRequest, PluginParams, RawRequest, plugin
from pointsman.parsing import parse_anything


@plugin("passthrough-parser")
class PassthroughParser:
    """Accepts any request on the paths that no other parser claims. It extracts no prompt, so prefix caches are not
    considered."""

    class Params(PluginParams):
        """Whether to read JSON bodies."""

        read_model: bool = True
        """Read `model` and `stream` from bodies that are JSON objects."""

    paths = ()

    def __init__(self, params: Params) -> None:
        self._read_model = params.read_model

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request, whatever its body."""
        return parse_anything(raw, read_model=self._read_model)
