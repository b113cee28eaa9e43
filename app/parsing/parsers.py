"""Which parser reads a request: the one that claims the longest end of its path."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import BadRequestError, PluginError, RoutingError
from app.domain.request import InferenceRequest, RawRequest
from app.extension.parsing import Parser
from app.parsing.anything import without_body


class Parsers:
    """The parsers of one configuration, in the order listed."""

    def __init__(self, parsers: Sequence[tuple[str, Parser]]) -> None:
        """`parsers` are pairs of the plugin's name and the parser. Of two that claim one path the first counts; one
        without paths takes what is left."""
        self._by_end: dict[str, tuple[str, Parser]] = {}
        self._rest: tuple[str, Parser] | None = None
        for name, parser in parsers:
            for path in parser.paths:
                self._by_end.setdefault(path.strip("/"), (name, parser))
            if not parser.paths and self._rest is None:
                self._rest = (name, parser)

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """The request. Raises `BadRequestError` when no parser takes the path, or when the body does not fit it."""
        if raw.method != "POST":
            return without_body(raw)
        found = self._parser_of(raw.path)
        if found is None:
            raise BadRequestError(f"no parser is configured for the path {raw.path}")
        name, parser = found
        try:
            return parser.parse(raw)
        except RoutingError:
            raise
        except Exception as error:
            raise PluginError(name, error) from error

    def _parser_of(self, path: str) -> tuple[str, Parser] | None:
        end = path.strip("/")
        while end:
            found = self._by_end.get(end)
            if found is not None:
                return found
            _, _, end = end.partition("/")
        return self._rest
