"""Sets up structlog: to standard error, as JSON for machines or in colour for people."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

ONLY_OTHERS_MISTAKES = ("aiohttp.server",)
"""Loggers that write a traceback whenever a client sends what is no HTTP; our own failures are logged by ourselves."""


def set_up_logging(*, format: Literal["json", "console"], level: str) -> None:  # noqa: A002 - as in YAML
    """Process-wide; to be called once, before the first line is logged. Libraries' logs come out in the same form."""
    least = logging.getLevelNamesMapping()[level.upper()]
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderers = _renderers(format)
    structlog.configure(
        processors=[*common, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=common, processors=[meta, *renderers]))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(least, logging.WARNING))
    for name in ONLY_OTHERS_MISTAKES:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _renderers(format: str) -> list[Any]:  # noqa: A002
    if format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
    ]
