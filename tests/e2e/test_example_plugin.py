"""The sample package in the documentation: built, installed beside the wheel, and named in two lines of YAML."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest

from tests.support.engines import fake_engine, says
from tests.support.processes import Process, pointsman
from tests.support.wheels import ROOT, build_wheel, install, uninstall

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "docs" / "example-plugin"


@pytest.fixture(scope="module")
def example_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
def python(installed: Path, example_wheel: Path) -> Iterator[Path]:
    """The Python of an environment with both wheels."""
    install(installed, example_wheel)
    yield installed
    uninstall(installed, "pointsman-cheapest")


def two_lines() -> str:
    """What the guide says to write."""
    (section,) = re.findall(
        r"^## As a package\n(.*?)^## ", (ROOT / "docs" / "writing-a-plugin.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (text,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert len(text.splitlines()) == 2
    return text


def test_the_package_is_one_module_and_says_where_its_class_is(example_wheel: Path) -> None:
    with zipfile.ZipFile(example_wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        (entry_points,) = [archive.read(name) for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert names == ["pointsman_cheapest.py"]
    assert b"[pointsman.plugins]\ncheapest-scorer = pointsman_cheapest:CheapestScorer" in entry_points


def test_the_readme_and_the_guide_say_the_same_two_lines() -> None:
    assert two_lines() in (EXAMPLE / "README.md").read_text()


async def test_a_running_router_takes_up_what_is_installed_and_named_meanwhile(
    installed: Path, example_wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "cheapest.yaml").write_text("plugins: []")
    async with fake_engine(says()) as a, fake_engine(says()) as b:
        ports = [a.port, b.port]
        async with routing(installed, tmp_path, ports, 1, "--set", "reload.watch=false") as router:
            url = (await router.says(r"routes (http://localhost:\d+)"))[1]
            admin = (await router.says(r"(http://localhost:\d+)/readyz"))[1]
            assert set(await served(url, 60)) == {f"127.0.0.1:{port}" for port in ports}
            (tmp_path / "cheapest.yaml").write_text(two_lines())
            status, said = await reload(admin)
            assert (status, "unknown plugin type 'cheapest-scorer'" in said) == (409, True)
            try:
                await asyncio.to_thread(install, installed, example_wheel)
                assert await reload(admin) == (200, "the configuration was applied\n")
                assert await served(url, 12) == [f"127.0.0.1:{b.port}"] * 12
            finally:
                await asyncio.to_thread(uninstall, installed, "pointsman-cheapest")


def test_its_own_tests_pass_with_both_wheels(python: Path, tmp_path: Path) -> None:
    """pytest is this environment's, as the wheelhouse has none; Pointsman and the plugin are those installed."""
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    where = "import pointsman, pointsman_cheapest; print(pointsman.__file__, pointsman_cheapest.__file__)"
    for command in (["-c", where], ["-m", "pytest", "-q", "-W", "error", "-p", "no:asyncio", "tests"]):
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path, env={**environment, "PYTHONPATH": str(packages)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert ran.stdout.count(str(packages)) == 2 or " passed" in ran.stdout


@pytest.mark.parametrize("cheap", [0, 1], ids=["the first", "the second"])
async def test_the_cheap_endpoint_wins_every_pick(python: Path, tmp_path: Path, cheap: int) -> None:
    (tmp_path / "cheapest.yaml").write_text(two_lines())
    async with fake_engine(says()) as a, fake_engine(says()) as b:
        ports = [a.port, b.port]
        async with routing(python, tmp_path, ports, cheap) as router:
            url = (await router.says(r"routes (http://localhost:\d+)"))[1]
            assert await served(url, 12) == [f"127.0.0.1:{ports[cheap]}"] * 12


def routing(
    python: Path, folder: Path, ports: Sequence[int], cheap: int, *more: str
) -> AbstractAsyncContextManager[Process]:
    """A router in front of `ports`, the one at `cheap` for half the price, with `cheapest.yaml` over the defaults."""
    endpoints = [
        f"{{name: e{n}, address: 127.0.0.1, port: {port}, labels: {{price: '{1 if n == cheap else 2}'}}}}"
        for n, port in enumerate(ports)
    ]
    fleet = f"pool: {{endpoints: [{', '.join(endpoints)}]}}\nobservability: {{logging: {{format: console}}}}"
    layers = ["-c", "builtin:default", "-c", "cheapest.yaml", "--config-text", fleet]
    arguments = ["serve", *layers, "--port", "0", "--admin-port", "0", *more]
    return pointsman(*arguments, python=str(python), cwd=str(folder))


async def served(url: str, count: int) -> list[str]:
    """The endpoints that served `count` requests."""
    found = []
    async with asyncio.timeout(20), aiohttp.ClientSession() as client:
        for number in range(count):
            body = {"model": "demo", "messages": [{"role": "user", "content": f"{number} is a number"}]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as answer:
                assert answer.status == 200
                found.append(answer.headers["x-gateway-destination-endpoint-served"])
    return found


async def reload(admin: str) -> tuple[int, str]:
    async with asyncio.timeout(20), aiohttp.ClientSession() as client, client.post(f"{admin}/-/reload") as answer:
        return answer.status, await answer.text()
