"""How logs are set up."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Literal

import pytest
import structlog

from app.observability.logging import set_up_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is process-wide: what a test sets up is taken back."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    servers = logging.getLogger("aiohttp.server")
    servers_level = servers.level
    yield
    servers.setLevel(servers_level)
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers


def said(capsys: pytest.CaptureFixture[str], style: Literal["json", "console"], level: str = "info") -> str:
    set_up_logging(format=style, level=level)
    log = structlog.get_logger("test")
    log.debug("quiet")
    log.info("request", endpoint="a")
    log.error("loud")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_a_line_of_json_holds_the_event_its_level_and_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(said(capsys, "json").splitlines()[0])
    assert (line["event"], line["level"], line["endpoint"]) == ("request", "info", "a")
    assert line["timestamp"].endswith("Z")


def test_a_line_for_people_holds_the_event_and_no_colour_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "console")
    assert "endpoint=a" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("level", "events"),
    [
        pytest.param("debug", ["quiet", "request", "loud"], id="debug"),
        pytest.param("info", ["request", "loud"], id="info"),
        pytest.param("error", ["loud"], id="error"),
    ],
)
def test_lines_below_the_level_are_dropped(capsys: pytest.CaptureFixture[str], level: str, events: list[str]) -> None:
    assert [json.loads(line)["event"] for line in said(capsys, "json", level).splitlines()] == events


def test_an_exception_s_traceback_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    structlog.get_logger().error("broken", exc_info=LookupError("gone"))
    (line,) = capsys.readouterr().err.splitlines()
    assert "LookupError: gone" in json.loads(line)["exception"]


def test_libraries_are_heard_from_warnings_on(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="debug")
    logging.getLogger("aiohttp").info("chatter")
    logging.getLogger("aiohttp").warning("trouble")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "trouble"


def test_what_a_library_logs_comes_out_in_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    logging.getLogger("some.library").warning("watch %s", "out")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("watch out", "warning")


def test_what_a_client_sends_wrong_fills_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    logging.getLogger("aiohttp.server").error("Error handling request")
    assert capsys.readouterr().err == ""
