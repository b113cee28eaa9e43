"""`pointsman fleet`, and the same servers as settings of the process."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import pytest

from app.commands import fleet
from app.settings.layers import Sources
from app.simulation.server import ServerOptions
from containers.application import check
from containers.options import simulated_servers


def servers_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[ServerOptions]:
    """The options of the servers that the command would serve with these arguments."""
    served: list[Any] = []

    async def serve(servers: list[Any]) -> None:
        served.extend(servers)

    monkeypatch.setattr(fleet, "_serve", serve)
    monkeypatch.setattr(fleet, "serve_until_stopped", lambda serving: asyncio.run(serving) or 0)
    monkeypatch.setattr(fleet, "set_up_logging", lambda **_: None)
    parser = argparse.ArgumentParser()
    fleet.add(parser)
    assert fleet.run(parser.parse_args(arguments)) == 0
    return [server.options for server in served]


@pytest.mark.parametrize(("arguments", "early"), [([], False), (["--early-heads"], True)])
def test_heads_may_be_early(monkeypatch: pytest.MonkeyPatch, arguments: list[str], early: bool) -> None:
    assert [options.early_heads for options in servers_of(monkeypatch, *arguments)] == [early] * 3


@pytest.mark.parametrize("early", [False, True])
def test_heads_of_an_embedded_fleet_may_be_early(early: bool) -> None:
    text = f"simulation: {{servers: 2, earlyHeads: {str(early).lower()}}}"
    settings = check(Sources(("builtin:default",), text)).configuration.settings
    assert [options.early_heads for options in simulated_servers(settings)] == [early] * 2
