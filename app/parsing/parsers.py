"""Selects the parser of a request: the one that claims the longest suffix of its path."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import BadRequestError, PluginError, RoutingError
from app.domain.request import InferenceRequest, RawRequest
from app.extension.parsing import Parser
from app.parsing.anything import without_body


class Parsers:
    """The parsers of a configuration, in the order listed."""

    def __init__(self, parsers: Sequence[tuple[str, Parser]]) -> None:
        """`parsers`: plugin names and parsers. Of several that claim a path the first one is used.

        A parser without paths claims all other paths.
        """
        self._by_suffix: dict[str, tuple[str, Parser]] = {}
        self._fallback: tuple[str, Parser] | None = None
        for name, parser in parsers:
            for path in parser.paths:
                self._by_suffix.setdefault(path.strip("/"), (name, parser))
            if not parser.paths and self._fallback is None:
                self._fallback = (name, parser)

    def parse(self, raw: RawRequest) -> InferenceRequest:
        """Parses a request. Raises `BadRequestError` if no parser claims the path or the body is invalid."""
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
        suffix = path.strip("/")
        while suffix:
            found = self._by_suffix.get(suffix)
            if found is not None:
                return found
            _, _, suffix = suffix.partition("/")
        return self._fallback
