"""Locates YAML syntax errors. The parser reports where it failed, which may be some lines after the actual mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

_MAPPING_NOT_ALLOWED = "mapping values are not allowed"
_NAMES = re.compile(r"\b(alias|anchor|handle) ('[^']*'|\"[^\"]*\")")
_COLON_EXPECTED = "could not find expected ':'"


@dataclass(frozen=True, slots=True)
class YamlError:
    """Position and message of a syntax error. Line and column start at 1; 0 means unknown."""

    line: int
    column: int
    message: str
    hint: str


def yaml_error_of(text: str | bytes, error: yaml.MarkedYAMLError) -> YamlError:
    """The mistake that caused `error`."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return YamlError(0, 0, _message(error), _hint(error))
    if _MAPPING_NOT_ALLOWED in (error.problem or ""):
        key = _key_without_colon(text)
        if key is not None and key.start_mark.line < mark.line:
            return _missing_colon(key.start_mark)
    if _COLON_EXPECTED in (error.problem or "") and error.context_mark is not None:
        return _missing_colon(error.context_mark)
    unfinished = "unexpected end of stream" in (error.problem or "")
    if unfinished and "quoted scalar" in (error.context or "") and error.context_mark is not None:
        mark = error.context_mark  # the opening quote, not the end of the text
    return YamlError(mark.line + 1, mark.column + 1, _message(error), _hint(error))


def _missing_colon(mark: yaml.Mark) -> YamlError:
    """The key is not echoed, since it may be a value, and a secret."""
    return YamlError(mark.line + 1, mark.column + 1, "there is no colon after a key", "write 'key:'")


def _key_without_colon(text: str | bytes) -> yaml.ScalarToken | None:
    """The last scalar before the error, if it is in the position of a key and so was probably meant as one."""
    loader = yaml.SafeLoader(text)
    before: yaml.Token | None = None
    last: yaml.Token | None = None
    try:
        while loader.check_token():
            before, last = last, loader.get_token()  # type: ignore[no-untyped-call]
    except yaml.MarkedYAMLError:
        for token in loader.tokens:
            before, last = last, token
    finally:
        loader.dispose()
    if not isinstance(last, yaml.ScalarToken) or not last.plain:
        return None
    is_value = isinstance(before, yaml.ValueToken) and before.start_mark.line == last.start_mark.line
    return None if is_value else last


def _message(error: yaml.MarkedYAMLError) -> str:
    """The parser's message without names taken from the text, since they may be misplaced values."""
    parts = [part for part in (error.context, error.problem) if part]
    return _NAMES.sub(r"\1", ", ".join(parts).replace("\n", " "))


def _hint(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if "'\\t'" in problem:
        return "indent with spaces, not with tabs"
    if _MAPPING_NOT_ALLOWED in problem:
        return "check the indentation, and quote text that contains a colon"
    if "unexpected end of stream" in problem and "quoted" in (error.context or ""):
        return "check for a missing closing quote"
    if "undefined alias" in problem:
        return "an anchor must precede its alias"
    return "check the indentation" if "block" in (error.context or "") else ""
