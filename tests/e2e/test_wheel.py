"""The wheel: installed into an empty environment from the wheelhouse, it serves without the source tree."""

from __future__ import annotations

import asyncio
import subprocess
import zipfile
from pathlib import Path

import aiohttp
import pytest

from tests.support.processes import pointsman

pytestmark = pytest.mark.slow


def test_the_wheel_carries_the_configurations_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"config/default.yaml", "config/dev.yaml", "config/prod.yaml", "pointsman/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]


def test_the_wheel_installs_the_console_script(installed: Path, tmp_path: Path) -> None:
    shown = subprocess.run(
        [installed.parent / "pointsman", "check"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert shown.stdout.startswith("ok: ")


async def test_the_installed_router_serves_a_request(installed: Path, tmp_path: Path) -> None:
    arguments = ["serve", "-c", "builtin:default", "-c", "builtin:dev", "--port", "0", "--admin-port", "0"]
    async with pointsman(*arguments, python=str(installed), cwd=str(tmp_path)) as router:
        url = (await router.says(r"routes (http://localhost:\d+)"))[1]
        body = {"model": "demo", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
        async with asyncio.timeout(20), aiohttp.ClientSession() as client:
            async with client.post(f"{url}/v1/chat/completions", json=body) as answer:
                assert (answer.status, (await answer.json())["usage"]["completion_tokens"]) == (200, 3)
