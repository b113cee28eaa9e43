"""The lines of the access log and of the event log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from app.domain.errors import NoEndpointsError, SaturatedError, UpstreamError
from app.domain.outcome import Ending, Outcome
from app.domain.usage import Usage
from app.extension import PREFIX_SHAPE, PrefixShape
from app.observability.access_log import AccessLog
from app.observability.events import EventLog
from app.replay.access_log import AccessLogReader
from app.replay.trace import Segment
from pointsman.testing import make_decision, make_endpoint, make_request

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

Lines = list[dict[str, Any]]


@pytest.fixture
def lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """The lines logged."""
    with structlog.testing.capture_logs() as captured:
        yield captured


DONE = Outcome(
    Ending.COMPLETED, 1.23456, status=200, head=0.0123, first_token=0.0512, time_per_output_token=0.01666, attempts=2,
    response_bytes=4096, usage=Usage(7, 3, 4),
)  # fmt: skip

SHAPE = PrefixShape(total_blocks=4, block_tokens=64, chains=([0xA1, 0xB2, 0xC3], [0xD4]), ends=(1, 2, 4, 6))


@pytest.mark.parametrize(
    ("shape", "prefix"),
    [
        pytest.param(SHAPE, [(64, "a1"), (64, "b2"), (128, "c3")], id="parts of several blocks"),
        pytest.param(PrefixShape(2, 16, ([1, 2],)), [(16, "1"), (16, "2")], id="a block each"),
        pytest.param(PrefixShape(), [], id="no hashes"),
        pytest.param(None, [], id="nothing known"),
    ],
)
def test_a_line_has_the_hashes_of_the_prompt_if_it_is_to(
    lines: Lines, shape: PrefixShape | None, prefix: list[tuple[int, str]]
) -> None:
    request = make_request(facts={} if shape is None else {PREFIX_SHAPE: shape})
    for log in (AccessLog(prefixes=True), AccessLog()):
        log.on_finished(request, make_decision("a"), DONE)
    assert [line.get("prefix") for line in lines] == [prefix, None]


def test_a_line_is_a_request_of_a_trace(lines: Lines) -> None:
    request = make_request(facts={PREFIX_SHAPE: SHAPE}, streaming=True, model="llama")
    AccessLog(prefixes=True).on_finished(
        request, make_decision("a"), Outcome(Ending.COMPLETED, 2.0, usage=Usage(300, 9))
    )
    line = {**json.loads(json.dumps(lines[0])), "timestamp": "2026-12-03T10:00:02Z"}
    found = AccessLogReader()(line)
    assert found is not None
    assert (found.prompt_tokens, found.output_tokens, found.model) == (300, 9, "llama")
    assert found.prompt[:3] == (Segment(64, 0xA1), Segment(64, 0xB2), Segment(128, 0xC3))


def logged(lines: Lines, outcome: Outcome, **fields: Any) -> dict[str, Any]:
    """The line of a request with this outcome."""
    AccessLog().on_finished(make_request(id="r1", **fields), make_decision("a", "b", profile="fast"), outcome)
    (line,) = lines
    return line


def test_a_finished_request_is_one_line(lines: Lines) -> None:
    assert logged(lines, DONE, streaming=True) == {
        "event": "request",
        "log_level": "info",
        "id": "r1",
        "path": "/v1/chat/completions",
        "model": "demo",
        "endpoint": "a",
        "profile": "fast",
        "status": 200,
        "ending": "completed",
        "attempts": 2,
        "streaming": True,
        "head_ms": 12.3,
        "ttft_ms": 51.2,
        "tpot_ms": 16.7,
        "duration_ms": 1234.6,
        "bytes": 4096,
        "prompt_tokens": 7,
        "output_tokens": 3,
        "cached_tokens": 4,
        "estimated_prompt_tokens": 10,
    }


def test_a_line_says_if_the_time_to_the_first_token_is_that_of_the_head(lines: Lines) -> None:
    line = logged(lines, replace(DONE, first_token=0.0123, first_token_exact=False))
    assert (line["ttft_ms"], line["ttft_from"], line["streaming"]) == (12.3, "head", False)


def test_what_is_not_known_is_none(lines: Lines) -> None:
    line = logged(lines, Outcome(Ending.CLIENT_LEFT, 0.5))
    names = ("status", "head_ms", "ttft_ms", "tpot_ms", "prompt_tokens", "output_tokens", "cached_tokens")
    assert (line["ending"], {line[name] for name in names}) == ("client-left", {None})


def test_an_attempt_that_was_followed_by_another_is_not_logged(lines: Lines) -> None:
    AccessLog().on_finished(make_request(), make_decision("a"), Outcome(Ending.UPSTREAM_FAILED, 0.5, final=False))
    assert lines == []


@pytest.mark.parametrize(
    ("error", "name", "reason"),
    [
        pytest.param(NoEndpointsError(), "NoEndpointsError", "no endpoint is available", id="no endpoints"),
        pytest.param(SaturatedError("too many"), "SaturatedError", "too many", id="saturated"),
        pytest.param(UpstreamError("a", "it died"), "UpstreamError", "it died", id="upstream failed"),
    ],
)
def test_a_refused_request_is_a_warning_with_the_reason(lines: Lines, error: Any, name: str, reason: str) -> None:
    AccessLog().on_refused(make_request(id="r1"), error)
    (line,) = lines
    assert (line["event"], line["log_level"], line["id"], line["error"]) == ("request refused", "warning", "r1", name)
    assert reason in line["reason"]


def test_the_prompt_is_never_logged(lines: Lines) -> None:
    log, request = AccessLog(), make_request("my secret prompt")
    log.on_finished(request, make_decision("a"), Outcome(Ending.COMPLETED, 1.0))
    log.on_refused(request, NoEndpointsError())
    assert "secret" not in str(lines)


@pytest.mark.parametrize(
    ("change", "level"),
    [pytest.param("down", "warning", id="down"), pytest.param("up", "info", id="up"),
     pytest.param("unreadable", "warning", id="unreadable")],
)  # fmt: skip
def test_a_change_of_an_endpoint_is_a_line(lines: Lines, change: str, level: str) -> None:
    EventLog().endpoint_changed(make_endpoint("a", port=81), change)
    assert lines == [
        {"event": "endpoint changed", "log_level": level, "endpoint": "a", "address": "127.0.0.1:81", "change": change}
    ]


def test_a_failed_attempt_is_a_line(lines: Lines) -> None:
    EventLog().attempt_failed(make_request(id="r1"), UpstreamError("a", "no connection to it"))
    (line,) = lines
    assert (line["id"], line["endpoint"], line["cause"]) == ("r1", "a", "no connection to it")


def test_the_end_of_discovery_is_an_error_with_its_kind(lines: Lines) -> None:
    EventLog().discovery_failed(LookupError("gone"))
    (line,) = lines
    assert (line["log_level"], line["reason"]) == ("error", "LookupError: gone")
