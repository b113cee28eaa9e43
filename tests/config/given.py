"""Configurations in short: checked from text, and what was wrong."""

from __future__ import annotations

from app.checking import Checked
from app.settings.errors import ConfigurationError, Fault
from app.settings.layers import Sources
from containers.application import check


def checked(text: str, *sets: str) -> Checked:
    """The configuration `text`, which must have no errors."""
    return check(Sources(text=text, sets=sets))


def faults_of(text: str, *sets: str) -> list[Fault]:
    """Errors and warnings of `text`, by place."""
    try:
        return list(check(Sources(text=text, sets=sets)).configuration.faults.all)
    except ConfigurationError as error:
        return list(error.faults)


def said(text: str, *sets: str) -> list[str]:
    """The faults of `text` as they are printed, less the name of the source."""
    return [str(fault).removeprefix("--config-text:") for fault in faults_of(text, *sets)]


def errors(text: str, *sets: str) -> list[str]:
    """The errors alone."""
    return [str(f).removeprefix("--config-text:") for f in faults_of(text, *sets) if f.severity == "error"]
