"""Sets up structlog: to standard error, as JSON for machines or in colour for people."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog


def set_up_logging(*, format: Literal["json", "console"], level: str) -> None:  # noqa: A002 - as in YAML
    """Process-wide; to be called once, before the first line is logged."""
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(least, logging.WARNING), stream=sys.stderr, format="%(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *_renderers(format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def _renderers(format: str) -> list[Any]:  # noqa: A002
    if format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
