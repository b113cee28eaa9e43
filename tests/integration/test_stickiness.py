"""Conversations stay with the endpoint that has their beginning cached; without the scorer they spread."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from openai import AsyncOpenAI

from tests.support.running import Running, running

FLEET = """
simulation: {servers: 3, prefillTokensPerSecond: 1000000, decodeTokensPerSecond: 1000000}
"""
WITHOUT_SCORER = """
plugins:
  - type: expected-ttft-scorer
    enabled: false
"""


async def twenty_requests(app: Running) -> tuple[dict[str, set[str]], int]:
    """Ten turns each of two conversations; the servers of each, and the cached tokens reported from turn two on."""
    client = AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)
    histories = {name: [{"role": "system", "content": f"You are {name}. " * 400}] for name in ("anna", "boris")}
    servers: dict[str, set[str]] = defaultdict(set)
    cached = 0
    for turn in range(10):
        for name, history in histories.items():
            history.append({"role": "user", "content": f"question {turn} of {name}"})
            reply = await client.chat.completions.create(model="demo", messages=history, max_tokens=8)  # type: ignore[arg-type]
            history.append({"role": "assistant", "content": reply.choices[0].message.content or ""})
            servers[name].add(reply.system_fingerprint or "")
            cached += turn > 0 and reply.usage.prompt_tokens_details.cached_tokens > 0  # type: ignore[union-attr]
    await client.close()
    return servers, cached


async def test_each_conversation_sticks_to_one_server_which_has_its_beginning_cached(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    async with running(str(fleet)) as app:
        servers, cached = await twenty_requests(app)
    assert [len(of_one) for of_one in servers.values()] == [1, 1]
    assert cached == 18


async def test_without_the_scorer_they_spread(tmp_path: Path) -> None:
    fleet, overlay = tmp_path / "fleet.yaml", tmp_path / "overlay.yaml"
    fleet.write_text(FLEET)
    overlay.write_text(WITHOUT_SCORER)
    async with running(str(fleet), str(overlay)) as app:
        servers, _ = await twenty_requests(app)
    assert all(len(of_one) > 1 for of_one in servers.values())


async def test_the_openai_client_streams(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    async with running(str(fleet)) as app:
        client = AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)
        stream = await client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "hi"}], stream=True, max_tokens=6
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        await client.close()
    assert len([piece for piece in pieces if piece]) == 6


async def test_the_openai_client_lists_the_models(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET)
    async with running(str(fleet)) as app:
        client = AsyncOpenAI(base_url=f"{app.url}/v1", api_key="none", max_retries=0)
        assert [model.id for model in (await client.models.list()).data] == ["demo"]
        await client.close()
