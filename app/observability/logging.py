"""Sets up structlog: to standard error, as JSON for machines or as text, coloured on a terminal, for people."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import structlog

UNNAMED = "root"
"""The name of a logger that was created without one, as in the standard library."""

CLIENT_ERROR_LOGGERS = ("aiohttp.server",)
"""They log a traceback whenever a client sends invalid HTTP. Our own failures are logged elsewhere."""


class NamedLogger(structlog.WriteLogger):
    """Writes lines to a file, and knows its name: `structlog.stdlib.add_logger_name` reads it."""

    def __init__(self, file: TextIO | None = None, name: str = UNNAMED) -> None:
        super().__init__(file)
        self.name = name


class NamedLoggerFactory:
    """Creates one `NamedLogger` per name: the first argument of `structlog.get_logger`.

    structlog calls it for every line, including lines below the level, so loggers are kept.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._loggers: dict[str, NamedLogger] = {}

    def __call__(self, name: str = UNNAMED, *_: object) -> NamedLogger:
        """The logger of that name."""
        logger = self._loggers.get(name)
        if logger is None:
            logger = self._loggers[name] = NamedLogger(self._file, name)
        return logger


def set_up_logging(*, format: Literal["json", "console"], level: str) -> None:  # noqa: A002 - as in YAML
    """Configures logging of the whole process, that of libraries included. May be called again to change it."""
    least = logging.getLevelNamesMapping()[level.upper()]
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderers = _renderers(format)
    structlog.configure(
        processors=[*common, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=NamedLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=common, processors=[meta, *renderers]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(least, logging.WARNING))
    for name in CLIENT_ERROR_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _renderers(format: str) -> list[Any]:  # noqa: A002
    if format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    ]
