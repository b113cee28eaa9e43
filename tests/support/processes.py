"""Real `pointsman` processes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Process:
    """A running process and its output so far."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.lines.append(line.decode().rstrip())

    async def says(self, pattern: str, within: float = 30.0) -> re.Match[str]:
        """Waits until a line of the output matches `pattern`."""
        async with asyncio.timeout(within):
            while True:
                for line in self.lines:
                    if match := re.search(pattern, line):
                        return match
                if self.process.returncode is not None:
                    raise AssertionError("\n".join(["the process exited:", *self.lines]))
                await asyncio.sleep(0.01)

    async def ends(self, within: float = 30.0) -> int:
        """Waits until the process exits; returns its exit code."""
        async with asyncio.timeout(within):
            return await self.process.wait()


@asynccontextmanager
async def pointsman(*arguments: str, python: str = sys.executable, cwd: str | None = None) -> AsyncIterator[Process]:
    """`pointsman` with `arguments`, killed at the end if it still runs."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        python, "-m", "app", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment, cwd=cwd,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    running = Process(process)
    readers = [asyncio.create_task(running.read(stream)) for stream in (process.stdout, process.stderr)]
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(*readers)


async def run(*arguments: str) -> tuple[int, Sequence[str]]:
    """Runs a command until it exits; returns its exit code and output."""
    async with pointsman(*arguments) as process:
        code = await process.ends()
    return code, process.lines
