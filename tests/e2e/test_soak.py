"""Clients that leave, stall and pipeline, endpoints that are restarted: the router lets go of everything."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, which is a script and not in a package."""
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


async def test_a_short_soak_leaves_nothing_behind(soak: ModuleType) -> None:
    """Memory is no subject of a run that is this short: the bound is a wide one."""
    plan = soak.Plan(
        seconds=3.0,
        warm_up=1.0,
        streams=16,
        restart_every=0.5,
        expire=False,
        growth=64.0,
        sample_every=0.2,
        settle=10.0,
    )
    report = await soak.run(plan)
    assert not report.failed, str(report)
    assert report.results["left by the client"] > 0
    assert report.results["restarts of endpoints"] > 0
