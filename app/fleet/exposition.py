"""Reads the Prometheus text format: only the wanted metrics, and only from pages that are complete."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.extension.fleet import ScrapeError

_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*"(?:[^"\\]|\\.)*"'
_SAMPLE = re.compile(
    rf"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
         (?:\s*\{{\s*(?P<labels>{_LABEL}(?:\s*,\s*{_LABEL})*)?\s*,?\s*\}})?
         \s+(?P<value>[^\s]+)
         (?:\s+-?\d+(?:\.\d+)?)?          # a timestamp, which a load metric does not need
         (?:\s*\#.*)?\s*$                 # an exemplar""",
    re.VERBOSE,
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_COMMENT_OR_NAME = re.compile(r"#|[a-zA-Z_:]")
_LINES_CHECKED = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page. `value` may be NaN or infinite, as the page says."""

    name: str
    labels: Mapping[str, str]
    value: float


class Exposition:
    """One page of metrics as text."""

    def __init__(self, page: bytes | str) -> None:
        """Raises `ScrapeError` if `page` is not a complete page of metrics: not text, HTML, JSON, or cut off."""
        self._text = _decoded(page) if isinstance(page, bytes) else page
        _refuse_other_formats(self._text)

    def mentions(self, prefix: str) -> bool:
        """Whether a metric's name begins with `prefix`."""
        return self._text.startswith(prefix) or f"\n{prefix}" in self._text

    def samples(self, names: Iterable[str]) -> dict[str, list[Sample]]:
        """The samples of those of `names` that are on the page, in the order of the page.

        Raises `ScrapeError` if a line of one of them can't be parsed. Lines of other metrics are not parsed.
        """
        found: dict[str, list[Sample]] = {}
        for name in names:
            if samples := self._samples_of(name):
                found[name] = samples
        return found

    def _samples_of(self, name: str) -> list[Sample]:
        text, samples = self._text, []
        start = 0 if text.startswith(name) else _after(text, f"\n{name}", 0)
        while start >= 0:
            end = text.find("\n", start)
            line = text[start : end if end >= 0 else len(text)]
            if line[len(name) : len(name) + 1] in ("{", " ", "\t"):
                samples.append(_parse(line))
            start = _after(text, f"\n{name}", start)
        return samples


def _after(text: str, needle: str, start: int) -> int:
    found = text.find(needle, start)
    return found + 1 if found >= 0 else -1


def _decoded(page: bytes) -> str:
    try:
        return page.decode()
    except UnicodeDecodeError as error:
        raise ScrapeError(f"the metrics page is not UTF-8 text: byte {error.start} can't be read") from None


def _refuse_other_formats(text: str) -> None:
    if not text.strip():
        raise ScrapeError("the metrics page is empty")
    if not text.endswith(("\n", "# EOF")):
        raise ScrapeError("the metrics page is cut off: its last line is incomplete")
    lines = [line for line in text[:2000].splitlines() if line.strip()]
    for line in lines[:_LINES_CHECKED]:
        if not _COMMENT_OR_NAME.match(line):
            raise ScrapeError(f"this is not a metrics page: it has the line {line[:60]!r}")


def _parse(line: str) -> Sample:
    match = _SAMPLE.match(line)
    if match is None:
        raise ScrapeError(f"a line of the metrics page can't be read: {line[:80]!r}")
    try:
        value = _number(match["value"])
    except ValueError:
        raise ScrapeError(f"a line of the metrics page has an invalid number: {line[:80]!r}") from None
    labels = {key: _ESCAPE.sub(_unescape, raw) for key, raw in _PAIR.findall(match["labels"] or "")}
    return Sample(match["name"], labels, value)


def _number(text: str) -> float:
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def total(samples: Iterable[Sample]) -> float | None:
    """The sum over label sets; None when no value is a finite number."""
    values = [sample.value for sample in samples if math.isfinite(sample.value)]
    return sum(values) if values else None


def mean(samples: Iterable[Sample]) -> float | None:
    """The mean over label sets; None when no value is a finite number."""
    values = [sample.value for sample in samples if math.isfinite(sample.value)]
    return sum(values) / len(values) if values else None
