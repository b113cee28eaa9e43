"""The response of a request: its head, its first token, its size and its usage, as observers and outcomes have them."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from dataclasses import replace
from typing import Any

import pytest

from app.domain.decision import Decision
from app.domain.errors import UpstreamError
from app.domain.outcome import Ending, Outcome
from app.domain.usage import Usage
from app.routing.router import Route
from pointsman.testing import make_request
from tests.unit.routing.given import ENDPOINTS, Setup, respond

JSON, SSE, TEXT = "application/json", "text/event-stream", "text/plain"
PING, ROLE, TOKEN, DONE = b": ping\n\n", b'data: {"x": 1}\n\n', b'data: {"x": 2}\n\n', b"data: [DONE]\n\n"
ERROR = b'data: {"error": {"message": "no"}}\n\n'
USAGE = b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": 11}}\n\n'


async def outcome_of(
    kind: str,
    *body: tuple[float, bytes],
    status: int = 200,
    encoding: str = "",
    live: bool = True,
    setup: Setup | None = None,
    path: str = "/v1/chat/completions",
) -> Outcome:
    """The outcome of a response whose head arrives after 1 s, and the chunks of its body at these times."""
    setup = setup or Setup()
    start = setup.clock.now()
    async with setup.router.route(replace(make_request(), path=path)) as route:
        setup.clock.advance(1)
        route.head(status)
        route.responds(kind, encoding, body=live)
        for time, data in body:
            setup.clock.advance(start + time - setup.clock.now())
            route.relay([data])
    (outcome,) = setup.diary.outcomes
    assert setup.entries.count("first token a") == (outcome.first_token is not None)
    return outcome


@pytest.mark.parametrize(
    ("kind", "body", "first_token"),
    [
        pytest.param(SSE, [(2, PING), (3, ROLE), (4, TOKEN), (5, DONE)], 3, id="stream"),
        pytest.param(SSE, [(2, ROLE[:9]), (3, ROLE[9:])], 3, id="an event in two chunks"),
        pytest.param(SSE, [(2, PING), (3, ERROR), (4, DONE)], None, id="error event"),
        pytest.param(SSE, [(2, b"")], None, id="empty stream"),
        pytest.param(JSON, [(2, b"{"), (3, b"}")], 2, id="JSON"),
        pytest.param(TEXT, [(2, b""), (3, b"x")], 3, id="text"),
        pytest.param("", [(2, b"x")], 2, id="no type"),
        pytest.param(JSON, [], None, id="no body"),
    ],
)
async def test_the_first_token_is_the_first_content(kind: str, body: Any, first_token: float | None) -> None:
    outcome = await outcome_of(kind, *body)
    assert (outcome.head, outcome.first_token, outcome.first_token_exact) == (1, first_token, True)
    assert outcome.response_bytes == sum(len(data) for _, data in body)


async def test_the_first_token_of_a_compressed_stream_is_its_first_byte() -> None:
    outcome = await outcome_of(SSE, (2, PING), (3, TOKEN), encoding="gzip")
    assert (outcome.first_token, outcome.time_per_output_token) == (2, None)


async def test_the_path_tells_the_responses_api() -> None:
    body = [(2, b'data: {"type": "created"}\n\n'), (3, b'data: {"type": "text.delta"}\n\n')]
    paths = ("/v1/responses", "/v1/chat/completions")
    assert [(await outcome_of(SSE, *body, path=path)).first_token for path in paths] == [3, 2]


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_an_error_response_has_no_first_token(status: int, live: bool) -> None:
    outcome = await outcome_of(JSON, (2, USAGE[6:]), status=status, live=live)
    assert (outcome.first_token, outcome.first_token_exact, outcome.head, outcome.status) == (None, True, 1, status)
    assert (outcome.response_bytes, outcome.usage) == (len(USAGE) - 6, None)


@pytest.mark.parametrize(("kind", "body"), [(SSE, []), (SSE, [(3, ROLE + TOKEN)]), (JSON, [(3, b"{}")])])
async def test_without_a_live_body_the_head_stands_in(kind: str, body: Any) -> None:
    setup = Setup()
    outcome = await outcome_of(kind, *body, live=False, setup=setup)
    assert (outcome.first_token, outcome.first_token_exact, outcome.time_per_output_token) == (1, False, None)
    assert setup.entries == ["scheduled a", "first token a", "finished a"]


async def test_the_head_alone_calls_no_observer() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        route.head(200)
        assert setup.entries == ["scheduled a"]
        route.responds(SSE, "")
        route.relay([PING])
        assert setup.entries == ["scheduled a"]
        route.relay([ROLE])
        assert setup.entries == ["scheduled a", "first token a"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param([(2, ROLE), (3, TOKEN), (4, TOKEN)], 1.0, id="counted"),
        pytest.param([(2, ROLE), (3, TOKEN + TOKEN + TOKEN + TOKEN), (4, DONE)], 0.5, id="counted, in one chunk"),
        pytest.param([(2, ROLE), (3, PING), (4, TOKEN)], 2.0, id="comments do not count"),
        pytest.param([(2, ROLE), (3, TOKEN), (4, USAGE)], 0.2, id="reported"),
        pytest.param([(2, ROLE), (4, DONE)], None, id="one token"),
        pytest.param(
            [(2, ROLE), (4, b'data: {"usage": {"completion_tokens": 1}}\n\n')], None, id="one token, reported"
        ),
        pytest.param([(2, PING)], None, id="none"),
    ],
)
async def test_the_time_per_output_token_of_a_stream(body: Any, expected: float | None) -> None:
    assert (await outcome_of(SSE, *body)).time_per_output_token == expected


async def test_a_response_that_is_no_stream_has_no_time_per_output_token() -> None:
    outcome = await outcome_of(JSON, (2, b'{"usage": {"completion_tokens": 9}}'), (3, b" "))
    assert (outcome.usage, outcome.time_per_output_token) == (Usage(None, 9), None)


@pytest.mark.parametrize(("kind", "data"), [(SSE, USAGE), (SSE, USAGE.rstrip()), (JSON, USAGE[6:])])
@pytest.mark.parametrize("live", [True, False])
async def test_an_outcome_has_the_usage(kind: str, data: bytes, live: bool) -> None:
    assert (await outcome_of(kind, (2, data[:20]), (3, data[20:]), live=live)).usage == Usage(7, 11)


async def test_a_request_without_a_response_has_nothing_of_one() -> None:
    setup = Setup()
    async with setup.router.route(make_request()):
        setup.clock.advance(2)
    assert setup.diary.outcomes == [Outcome(Ending.COMPLETED, 2)]


async def test_after_a_retry_the_times_of_the_failed_attempt_are_gone() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        setup.clock.advance(1)
        route.head(200)
        setup.clock.advance(1)
        route.retry(UpstreamError("a", "it died"))
        setup.clock.advance(1)
    assert [(o.head, o.status, o.duration) for o in setup.diary.outcomes] == [(1, 200, 2), (None, None, 3)]


async def test_the_times_of_the_last_attempt_are_since_the_request_arrived() -> None:
    setup = Setup()
    async with setup.router.route(make_request()) as route:
        setup.clock.advance(1)
        route.head(200)
        route.retry(UpstreamError("a", "it died"))
        setup.clock.advance(2)
        respond(route, 201)
    assert [(o.head, o.first_token, o.status) for o in setup.diary.outcomes] == [(1, None, 200), (3, 3, 201)]
    assert setup.entries[-3:] == ["scheduled b", "first token b", "finished b"]


class Listener:
    """Records the first tokens of requests in flight."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def on_entered(self, *_: Any) -> None: ...

    def on_prefilled(self, decision: Decision, exact: bool) -> None:
        self.seen.append((decision.endpoint.name, exact))

    def on_left(self, *_: Any) -> None: ...


@pytest.mark.parametrize("live", [True, False])
async def test_listeners_see_whether_the_first_token_is_exact(live: bool) -> None:
    setup, early, late = Setup(), Listener(), Listener()
    setup.in_flight.follow(early, "early")
    async with setup.router.route(make_request()) as route:
        route.served_by(ENDPOINTS[2].authority)
        route.head(200)
        route.responds(SSE, "", body=live)
        route.relay([ROLE])
        route.relay([TOKEN])
        setup.in_flight.follow(late, "late")
    assert early.seen == late.seen == [("c", live)]


async def test_observers_are_called_in_the_context_of_the_request() -> None:
    """The chunks may come from a connection that another request opened."""
    variable: ContextVar[str] = ContextVar("variable")
    seen: list[str] = []

    class Reads:
        def on_first_token(self, *_: Any) -> None:
            seen.append(variable.get())

    variable.set("another request")
    others = copy_context()
    variable.set("this request")
    async with Setup(observers=[Reads()]).router.route(make_request()) as route:
        route.head(200)
        route.responds(TEXT, "")
        others.run(Route.relay, route, [b"x"])
    assert seen == ["this request"]
