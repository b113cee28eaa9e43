"""Runs the producers of facts, one after the other, all within one deadline.

Most producers look something up and never wait. Each is therefore run up to where it first waits, and only if it does
is a timer set: that costs as much as a scorer or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.domain.decision import PluginFault
from app.domain.facts import AnyFactKey, GrowingFacts
from app.domain.named import Named
from app.domain.request import InferenceRequest
from app.extension.requests import Producer
from app.extension.services import Pool

Found = Mapping[AnyFactKey, object]
Report = Callable[[PluginFault], None]


class _Waiting(NamedTuple):
    """A producer that has begun and waits."""

    name: str
    rest: _Rest


def gather(
    producers: Sequence[Named[Producer]], request: InferenceRequest, pool: Pool, *, deadline: float, report: Report
) -> InferenceRequest | Awaitable[InferenceRequest]:
    """`request` with what the producers find within `deadline` seconds, to be awaited if one of them waits.

    Their failures cost only their facts.
    """
    left = iter(producers)
    request, waiting = _until_one_waits(left, request, pool, report)
    if waiting is None:
        return request
    return _gather_rest(left, request, waiting, pool, deadline, report)


async def _gather_rest(
    left: Iterator[Named[Producer]],
    request: InferenceRequest,
    waiting: _Waiting | None,
    pool: Pool,
    deadline: float,
    report: Report,
) -> InferenceRequest:
    name = ""
    try:
        async with asyncio.timeout(deadline) as limit:
            while waiting is not None and not limit.expired():
                name = waiting.name
                try:
                    request = _with(request, await waiting.rest)
                except Exception as error:  # noqa: BLE001 - a producer's failure never fails a request
                    report(PluginFault(name, "Producer", error))
                if not limit.expired():  # a producer may have hidden it
                    request, waiting = _until_one_waits(left, request, pool, report)
    except TimeoutError:
        pass
    if not limit.expired():
        return request
    late = PluginFault(name, "Producer", f"not done within {deadline} s")
    report(late)
    return _without_waiting(left, request, pool, report)


def _until_one_waits(
    producers: Iterator[Named[Producer]], request: InferenceRequest, pool: Pool, report: Report
) -> tuple[InferenceRequest, _Waiting | None]:
    for name, producer in producers:
        try:
            coroutine = producer.produce(request, pool)
            try:
                waits_for = coroutine.send(None)
            except StopIteration as done:
                request = _with(request, done.value)
            else:
                return request, _Waiting(name, _Rest(coroutine, waits_for))
        except Exception as error:  # noqa: BLE001 - a producer's failure never fails a request
            report(PluginFault(name, "Producer", error))
    return request, None


def _without_waiting(
    producers: Iterator[Named[Producer]], request: InferenceRequest, pool: Pool, report: Report
) -> InferenceRequest:
    """What the producers that are left find at once; those that would have to wait are dropped."""
    waiting: _Waiting | None
    while True:
        request, waiting = _until_one_waits(producers, request, pool, report)
        if waiting is None:
            return request
        waiting.rest.drop()
        report(PluginFault(waiting.name, "Producer", "the deadline of all producers had passed"))


def _with(request: InferenceRequest, found: Found | None) -> InferenceRequest:
    """`request` with `found`: another one if it has had no facts, else the same one."""
    if found is None:
        raise TypeError("it returned None; without facts it must return an empty mapping")
    if not found:
        return request
    facts = request.facts
    if not isinstance(facts, GrowingFacts):
        facts = facts.growing()
        request = request.with_facts(facts)
    facts.add(found)
    return request


class _Rest:
    """What is left of a coroutine that was begun: awaiting it goes on where it waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Found], waits_for: object) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def drop(self) -> None:
        """Ends the coroutine where it is."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Found]:
        waits_for = self._waits_for
        try:
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                    waits_for = self._coroutine.throw(error)
                else:
                    waits_for = self._coroutine.send(sent)
        except StopIteration as done:
            found: Found = done.value
            return found
