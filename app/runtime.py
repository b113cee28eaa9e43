"""A folder for what the process needs while it runs: sockets, and files for programs that it starts."""

from __future__ import annotations

import shutil
import tempfile
from functools import cached_property
from pathlib import Path


class RuntimeDirectory:
    """Made when it is first asked for, seen by nobody else, removed by `remove`."""

    @cached_property
    def path(self) -> Path:
        """Where it is."""
        return Path(tempfile.mkdtemp(prefix="pointsman-"))

    async def remove(self) -> None:
        """Removes it with all that is in it."""
        made = self.__dict__.get("path")
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
