"""What slipped in a text that is no YAML: the parser says where it stumbled, which may be a line after the slip."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

_STUMBLED = "mapping values are not allowed"
_NAMES = re.compile(r"\b(alias|anchor|handle) ('[^']*'|\"[^\"]*\")")
_LOST = "could not find expected ':'"


@dataclass(frozen=True, slots=True)
class YamlError:
    """The place, from 1, or 0 where the parser says none, and what to say of it."""

    line: int
    column: int
    sentence: str
    hint: str


def yaml_error_of(text: str | bytes, error: yaml.MarkedYAMLError) -> YamlError:
    """Where and what the slip is that `error` comes from."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return YamlError(0, 0, _sentence(error), _hint_at(error))
    if _STUMBLED in (error.problem or ""):
        key = _key_without_colon(text)
        if key is not None and key.start_mark.line < mark.line:
            return _forgotten_colon(key.start_mark)
    if _LOST in (error.problem or "") and error.context_mark is not None:
        return _forgotten_colon(error.context_mark)
    unfinished = "unexpected end of stream" in (error.problem or "")
    if unfinished and "quoted scalar" in (error.context or "") and error.context_mark is not None:
        mark = error.context_mark  # where the quote opens, not the end of the text
    return YamlError(mark.line + 1, mark.column + 1, _sentence(error), _hint_at(error))


def _forgotten_colon(mark: yaml.Mark) -> YamlError:
    """What stands there is not echoed: it may be a value, and a secret."""
    return YamlError(mark.line + 1, mark.column + 1, "a key has no colon after it", "write 'key:'")


def _key_without_colon(text: str | bytes) -> yaml.ScalarToken | None:
    """The text before the parser stumbled that stands where a key may stand, and so was meant as one."""
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


def _sentence(error: yaml.MarkedYAMLError) -> str:
    """The parser's words, less names that the text gives, which may be values in a wrong place."""
    parts = [part for part in (error.context, error.problem) if part]
    return _NAMES.sub(r"\1", ", ".join(parts).replace("\n", " "))


def _hint_at(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if "'\\t'" in problem:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in problem:
        return "is the indentation right, and is every text with a colon quoted?"
    if "unexpected end of stream" in problem and "quoted" in (error.context or ""):
        return "is the closing quote missing?"
    if "undefined alias" in problem:
        return "an anchor must stand before its alias"
    return "is the indentation right?" if "block" in (error.context or "") else ""
