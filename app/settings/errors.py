"""Errors and warnings in a configuration: where, what was found, what was expected, and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.settings.tree import Origin

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Fault:
    """An error or a warning in a configuration."""

    origin: Origin
    message: str
    """What was found and what was expected."""
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        path = f"{self.origin.path}: " if self.origin.path else ""
        warning = "warning: " if self.severity == "warning" else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.origin}: {warning}{path}{self.message}{hint}"


class Faults:
    """Collects faults without duplicates."""

    def __init__(self) -> None:
        self._faults: dict[Fault, None] = {}
        self.sources: list[str] = []
        """The sources in the order in which their faults are reported."""

    def error(self, origin: Origin, message: str, hint: str = "") -> None:
        """Adds an error: the configuration is unusable."""
        self._faults[Fault(origin, message, hint)] = None

    def warn(self, origin: Origin, message: str, hint: str = "") -> None:
        """Adds a warning: the configuration is usable, but probably not what was intended."""
        self._faults[Fault(origin, message, hint, "warning")] = None

    def suggests(self, origin: Origin, key: str) -> bool:
        """Whether a fault in the mapping at `origin` already suggests `key`."""
        return any(
            fault.hint == f"did you mean {key!r}?"
            and (fault.origin.source, fault.origin.path.rpartition(".")[0]) == (origin.source, origin.path)
            for fault in self._faults
        )

    def __bool__(self) -> bool:
        """Whether there are errors."""
        return any(fault.severity == "error" for fault in self._faults)

    @property
    def all(self) -> tuple[Fault, ...]:
        """All faults, ordered by source, line and column."""
        sources = list(dict.fromkeys([*self.sources, *(fault.origin.source for fault in self._faults)]))

        def position(fault: Fault) -> tuple[int, int, int]:
            return (sources.index(fault.origin.source), fault.origin.line, fault.origin.column)

        return tuple(sorted(self._faults, key=position))

    def rank(self, origin: Origin) -> int:
        """Precedence of the source of `origin`: files in order, then `--config-text`, the environment, `--set`."""
        if origin.source in self.sources:
            return self.sources.index(origin.source)
        return len(self.sources) + origin.source.startswith("--set")

    @property
    def errors(self) -> tuple[Fault, ...]:
        """The errors, ordered by position."""
        return tuple(fault for fault in self.all if fault.severity == "error")

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """The warnings, ordered by position."""
        return tuple(fault for fault in self.all if fault.severity == "warning")


class ConfigurationError(Exception):
    """The configuration has errors. `faults` contains them and the warnings."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults)
        self.faults = faults

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults)


class UsageError(Exception):
    """A command line is invalid: a file can't be read, or the value of an option is missing or malformed."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest match in `known`, or all of `known` if none is close; empty if `known` is empty."""
    known = sorted(set(known))
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if near:
        return f"did you mean {by_lower[near[0]]!r}?"
    return f"known: {', '.join(known)}" if known else ""
