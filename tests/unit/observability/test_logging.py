"""How logging is set up, and what its lines contain."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Literal

import pytest
import structlog

from app.observability.logging import set_up_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

Style = Literal["json", "console"]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restores the configuration of logging, which is process-wide."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    servers = logging.getLogger("aiohttp.server")
    servers_level = servers.level
    yield
    servers.setLevel(servers_level)
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers


def logged(capsys: pytest.CaptureFixture[str], style: Style, level: str = "info") -> str:
    """What is written of a line per level."""
    set_up_logging(format=style, level=level)
    log = structlog.get_logger("test")
    log.debug("quiet")
    log.info("request", endpoint="a")
    log.error("loud")
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of JSON that were written."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_of_json_has_the_event_its_level_and_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(logged(capsys, "json").splitlines()[0])
    assert (line["event"], line["level"], line["endpoint"]) == ("request", "info", "a")
    assert line["timestamp"].endswith("Z")


def test_a_line_for_people_has_no_colour_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = logged(capsys, "console")
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
    assert [json.loads(line)["event"] for line in logged(capsys, "json", level).splitlines()] == events


def test_an_exception_s_traceback_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    structlog.get_logger().error("broken", exc_info=LookupError("gone"))
    (line,) = lines(capsys)
    assert "LookupError: gone" in line["exception"]


def test_libraries_log_warnings_and_above(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="debug")
    logging.getLogger("aiohttp").info("chatter")
    logging.getLogger("aiohttp").warning("trouble")
    (line,) = lines(capsys)
    assert line["event"] == "trouble"


def test_logs_of_libraries_have_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    logging.getLogger("some.library").warning("watch %s", "out")
    (line,) = lines(capsys)
    assert (line["event"], line["level"]) == ("watch out", "warning")


def test_invalid_http_from_clients_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    logging.getLogger("aiohttp.server").error("Error handling request")
    assert capsys.readouterr().err == ""


# -- names of loggers


NAMES = [
    pytest.param(lambda: structlog.get_logger("pointsman.http"), "pointsman.http", id="ours"),
    pytest.param(lambda: structlog.get_logger("pointsman.http").bind(id="r1"), "pointsman.http", id="ours, bound"),
    pytest.param(lambda: structlog.get_logger("pointsman.http", "more"), "pointsman.http", id="ours, more arguments"),
    pytest.param(lambda: structlog.get_logger("pointsman.http", id="r1"), "pointsman.http", id="ours, with values"),
    pytest.param(structlog.get_logger, "root", id="ours, unnamed"),
    pytest.param(lambda: logging.getLogger("some.library"), "some.library", id="a library's"),
    pytest.param(logging.getLogger, "root", id="a library's, unnamed"),
]


@pytest.mark.parametrize(("logger", "name"), NAMES)
def test_a_line_of_json_has_the_name_of_its_logger(logger: Any, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    logger().warning("trouble")
    (line,) = lines(capsys)
    assert (line["event"], line["logger"]) == ("trouble", name)


@pytest.mark.parametrize(("logger", "name"), NAMES)
def test_a_line_for_people_has_the_name_of_its_logger(
    logger: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging(format="console", level="info")
    logger().warning("trouble")
    assert f"[{name}]" in capsys.readouterr().err


def test_a_traceback_of_ours_has_the_name_of_its_logger(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    try:
        {}["gone"]
    except LookupError:
        structlog.get_logger("pointsman.http").exception("broken")
    (line,) = lines(capsys)
    assert (line["logger"], line["level"]) == ("pointsman.http", "error")


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_logger_that_was_created_before_the_set_up_has_its_name(
    style: Style, capsys: pytest.CaptureFixture[str]
) -> None:
    log = structlog.get_logger("pointsman.http")
    set_up_logging(format=style, level="info")
    log.info("served")
    assert "pointsman.http" in capsys.readouterr().err


def test_each_logger_has_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(format="json", level="info")
    for name in ("a", "b", "a"):
        structlog.get_logger(name).info("served")
    assert [line["logger"] for line in lines(capsys)] == ["a", "b", "a"]


def test_a_second_set_up_applies_to_loggers_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    log = structlog.get_logger("pointsman.http")
    set_up_logging(format="json", level="error")
    log.info("quiet")
    set_up_logging(format="json", level="info")
    log.info("served")
    assert [(line["event"], line["logger"]) for line in lines(capsys)] == [("served", "pointsman.http")]


def test_a_dropped_line_runs_no_processor(capsys: pytest.CaptureFixture[str]) -> None:
    class Value:
        def __repr__(self) -> str:
            raise AssertionError

    set_up_logging(format="json", level="info")
    processed: list[Any] = []
    structlog.configure(
        processors=[lambda _, __, event: processed.append(event) or "", *structlog.get_config()["processors"]]
    )
    structlog.get_logger("pointsman.http").debug("quiet", value=Value())
    assert (processed, capsys.readouterr().err) == ([], "")


def test_lines_of_one_logger_share_what_writes_them() -> None:
    set_up_logging(format="json", level="info")
    create = structlog.get_config()["logger_factory"]
    assert create("pointsman.http") is create("pointsman.http", "more")
    assert create("pointsman.http") is not create("pointsman.ext_proc")
