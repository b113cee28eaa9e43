"""Checks that a plugin's methods fit their extension points: their arguments, and whether they are async.

Reports only what is certainly wrong. A method that can't be inspected passes, and so does one that takes `*args`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from app.catalogue.loading import PluginTypeError
from app.extension import Extractor, ProfilePicker

_AWAITABLE = re.compile(r"\b(Awaitable|Coroutine|Future|Task)\b")

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_CLASS_METHODS: Mapping[type, Sequence[str]] = {ProfilePicker: ("profile_names",), Extractor: ("engines",)}
"""Methods that are called before the plugin is built, and so must be class methods, by extension point."""


def check_renamed(cls: type, address: str) -> None:
    """Raises `PluginTypeError` if `cls` has a method that is not called any more because its name changed."""
    follows = hasattr(cls, "on_entered") and hasattr(cls, "on_left")
    for name, now, is_ours in (("on_first_byte", "on_first_token", True), ("on_responded", "on_prefilled", follows)):
        if is_ours and callable(getattr(cls, name, None)):
            message = f"the method {name} of {address} is never called; it is {now} now"
            raise PluginTypeError(message, "it is called at the first content of a response, and no longer at its head")


def check_methods(cls: type, points: Iterable[type], address: str) -> None:
    """Checks the methods of `cls` that belong to `points`. Raises `PluginTypeError` for the first that can't be called.

    `address` is the class's address, for error messages.
    """
    for point in points:
        for name in _CLASS_METHODS.get(point, ()):
            if isinstance(inspect.getattr_static(cls, name, None), FunctionType):
                message = f"the method {name} of {address} is called before the plugin is built"
                raise PluginTypeError(f"{message}; it must be a class method")
        for name, expected in methods_of(point):
            found = inspect.getattr_static(cls, name, None)
            where = f"the method {name} of {address}"
            _check_kind(found, expected, point, where)
            _check_arguments(found, expected, where)


def methods_of(point: type) -> Iterator[tuple[str, FunctionType]]:
    """The methods of an extension point, by name."""
    for name, value in vars(point).items():
        if isinstance(value, FunctionType) and not name.startswith("_"):
            yield name, value


def with_article(point: type) -> str:
    """The name of an extension point with its indefinite article, such as `an Extractor`."""
    return f"{'an' if point.__name__[0] in 'AEIOU' else 'a'} {point.__name__}"


def _check_kind(found: Any, expected: FunctionType, point: type, where: str) -> None:
    """Checks that the method is a coroutine function if it is awaited, and a plain function if it is not."""
    function = _function_of(found)
    if function is None:
        return
    rule = f"{with_article(point)}'s must be"
    awaited = inspect.iscoroutinefunction(expected)
    if inspect.isasyncgenfunction(function):
        expectation = "async without a yield" if awaited else "a plain function"
        raise PluginTypeError(f"{where} is an async generator; {rule} {expectation}")
    if not awaited and inspect.iscoroutinefunction(function):
        raise PluginTypeError(f"{where} is async; {rule} a plain function")
    if awaited and not inspect.iscoroutinefunction(function) and not _may_return_awaitable(function):
        hint = "if it returns an awaitable, annotate its return type"
        raise PluginTypeError(f"{where} is a plain function; {rule} async", hint)


def _may_return_awaitable(function: FunctionType) -> bool:
    """Whether a plain function may return an awaitable: it may wrap another function, or its annotation says so."""
    signature = inspect.signature(function, follow_wrapped=False)
    return (
        hasattr(function, "__wrapped__")
        or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values())
        or _AWAITABLE.search(str(signature.return_annotation)) is not None
    )


def _check_arguments(found: Any, expected: FunctionType, where: str) -> None:
    """Checks that the method takes as many positional arguments as its extension point passes."""
    signature = _signature_of(found)
    if signature is None:
        return
    names = list(inspect.signature(expected).parameters)[1:]
    first = _first_argument(found)
    try:
        signature.bind(*[None] * (len(names) + bool(first)))
    except TypeError:
        form = f"{expected.__name__}({', '.join(names)})"
        raise PluginTypeError(f"{where} {_arguments_in_words(signature, first)}; expected {form}") from None


def _arguments_in_words(signature: inspect.Signature, first: str) -> str:
    """The arguments that a method takes, in words. `first` is the argument that Python adds, if it adds one."""
    parameters = signature.parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    keywords = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if keywords:
        return f"requires the keyword argument {keywords[0]!r}"
    if first and not positional:
        return f"takes no arguments, not even {first}"
    required = sum(parameter.default is parameter.empty for parameter in positional) - bool(first)
    most = len(positional) - bool(first)
    after = f" after {first}" if first else ""
    bound = "" if required == most else f"{required} to "
    return f"takes {bound}{most} argument{'s' * (most != 1)}{after}"


def _signature_of(found: Any) -> inspect.Signature | None:
    function: Callable[..., Any] | None = _function_of(found)
    if function is None and callable(found) and not hasattr(type(found), "__get__"):
        function = found
    if function is None:
        return None
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _function_of(found: Any) -> FunctionType | None:
    """The Python function behind a class's attribute; None for any other kind of callable."""
    function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    return function if isinstance(function, FunctionType) else None


def _first_argument(found: Any) -> str:
    """The argument that Python adds in front when the method is called; empty if it adds none."""
    if isinstance(found, classmethod):
        return "cls"
    return "self" if isinstance(found, FunctionType) else ""
