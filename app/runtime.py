"""A directory for what the process needs while it runs: sockets, and files for programs that it starts."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from functools import cached_property
from pathlib import Path


class RuntimeDirectory:
    """Created on first use, readable only by this user, and removed by `remove` or when the process exits."""

    @cached_property
    def path(self) -> Path:
        """The path of the directory, which exists from then on."""
        made = Path(tempfile.mkdtemp(prefix="pointsman-"))
        self._remove = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    async def remove(self) -> None:
        """Removes the directory and everything in it."""
        if "path" in self.__dict__:
            self._remove()
