"""A folder for what the process needs while it runs: sockets, and files for programs that it starts."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path


class RuntimeDirectory:
    """Made when it is first asked for, seen by nobody else, removed by `remove`, or when the process ends."""

    @cached_property
    def path(self) -> Path:
        """Where it is."""
        made = Path(tempfile.mkdtemp(prefix="pointsman-"))
        self._remove = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    async def remove(self) -> None:
        """Removes it with all that is in it."""
        if "path" in self.__dict__:
            self._remove()
