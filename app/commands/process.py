"""Runs a command that serves until it is stopped."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from app.commands.arguments import EXIT_FAULTS
from app.extension import DiscoveryError


def serve_until_stopped(main: Coroutine[Any, Any, None]) -> int:
    """Runs `main` and returns the exit code. Prints an expected error, such as a port in use, without a traceback."""
    try:
        uvloop.run(main)
    except (DiscoveryError, OSError) as error:
        print(f"pointsman: can't start: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAULTS
    return 0
