"""The methods of plugin classes: signatures that fit their extension point, and errors for those that do not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import plugins
from app.catalogue.catalogue import EXTENSION_POINTS, Catalogue, describe
from app.catalogue.loading import PluginTypeError
from app.catalogue.signatures import methods_of
from app.extension import Extractor, Filter, Lifecycle, Producer, ProfilePicker, Scorer

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def function(head: str, *, body: str = "return None") -> Callable[..., Any]:
    """The function whose definition begins with `head`."""
    namespace: dict[str, Any] = {}
    exec(f"{head}:\n    {body}", namespace)
    return namespace[head.removeprefix("async ").removeprefix("def ").partition("(")[0]]


class Method:
    """A method of an extension point, and variants of its definition."""

    def __init__(self, point: type, name: str, expected: Callable[..., Any]) -> None:
        self.point = point
        self.name = name
        self.names = list(inspect.signature(expected).parameters)[1:]
        self.is_async = inspect.iscoroutinefunction(expected)

    def define(
        self, *parameters: str, is_async: bool | None = None, first: str = "self", body: str = "return None"
    ) -> Any:
        prefix = "async " if (self.is_async if is_async is None else is_async) else ""
        names = ", ".join([*([first] if first else []), *parameters])
        return function(f"{prefix}def {self.name}({names})", body=body)

    @property
    def form(self) -> str:
        return f"{self.name}({', '.join(self.names)})"

    @property
    def owner(self) -> str:
        return f"{'an' if self.point.__name__[0] in 'AEIOU' else 'a'} {self.point.__name__}'s"


METHODS = [Method(point, name, expected) for point in EXTENSION_POINTS for name, expected in sorted(methods_of(point))]

CASES: list[ParameterSet] = [pytest.param(method, id=f"{method.point.__name__}.{method.name}") for method in METHODS]


def class_with(method: Method, attribute: Any) -> type:
    """A class that implements the method's extension point, with `attribute` for the one method; also a filter."""
    others = {other.name: other.define(*other.names) for other in METHODS if other.point is method.point}
    of_filter = {"filter": function("def filter(self, request, candidates)")}
    return type("Mine", (), {**of_filter, **others, method.name: attribute})


def check(method: Method, attribute: Any) -> None:
    found = describe(class_with(method, attribute), "mine.py:Mine")
    assert method.point in found.extension_points


def error(method: Method, attribute: Any) -> str:
    with pytest.raises(PluginTypeError) as caught:
        check(method, attribute)
    assert str(caught.value).startswith(f"the method {method.name} of mine.py:Mine ")
    return str(caught.value).removeprefix(f"the method {method.name} of mine.py:Mine ")


def test_every_extension_point_has_a_case() -> None:
    assert {method.point for method in METHODS} == set(EXTENSION_POINTS)


# -- methods that fit


@pytest.mark.parametrize("method", CASES)
def test_a_method_with_the_protocol_s_signature_fits(method: Method) -> None:
    check(method, method.define(*method.names))


@pytest.mark.parametrize("method", CASES)
def test_arguments_may_have_any_names(method: Method) -> None:
    check(method, method.define(*(f"_{name}" for name in method.names), first="this"))


@pytest.mark.parametrize("method", CASES)
def test_positional_only_arguments_fit(method: Method) -> None:
    check(method, method.define(*method.names, "/"))


@pytest.mark.parametrize("method", CASES)
def test_more_arguments_with_defaults_fit(method: Method) -> None:
    check(method, method.define(*method.names, "more=1", "*", "other=2", "**rest"))


@pytest.mark.parametrize("method", CASES)
def test_any_number_of_arguments_fits(method: Method) -> None:
    check(method, method.define("*arguments", "**rest"))
    check(method, method.define("*arguments", first=""))


@pytest.mark.parametrize("method", CASES)
def test_a_static_method_takes_no_self(method: Method) -> None:
    check(method, staticmethod(method.define(*method.names, first="")))


@pytest.mark.parametrize("method", CASES)
def test_a_class_method_fits(method: Method) -> None:
    check(method, classmethod(method.define(*method.names, first="cls")))


@pytest.mark.parametrize("method", CASES)
def test_an_inherited_method_fits(method: Method) -> None:
    base = class_with(method, method.define(*method.names))
    assert method.point in describe(type("Child", (base,), {}), "mine.py:Child").extension_points


@pytest.mark.parametrize("method", CASES)
def test_a_method_inherited_from_the_protocol_fits(method: Method) -> None:
    filters = {"filter": function("def filter(self, request, candidates)")}
    assert method.point in describe(type("Child", (method.point,), filters), "mine.py:Child").extension_points


class Callback:
    """A callable that is not a function."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)


class Opaque:
    """A callable without a valid signature."""

    __signature__ = "none"

    def __call__(self, *arguments: Any) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    "attribute",
    [
        pytest.param(Callback(lambda *_: None), id="instance"),
        pytest.param(Opaque(), id="without a signature"),
        pytest.param(functools.partialmethod(lambda self, *_: None), id="partial method"),
        pytest.param(functools.partial(lambda *_: None), id="partial"),
        pytest.param(max, id="built-in function"),
        pytest.param(dict, id="class"),
    ],
)
@pytest.mark.parametrize("method", CASES)
def test_a_callable_that_can_t_be_inspected_fits(method: Method, attribute: Any) -> None:
    check(method, attribute)


# -- async or not


@pytest.mark.parametrize("method", CASES)
def test_a_method_is_async_exactly_where_it_is_awaited(method: Method) -> None:
    message = error(method, method.define(*method.names, is_async=not method.is_async))
    if method.is_async:
        assert message == f"is a plain function; {method.owner} must be async"
    else:
        assert message == f"is async; {method.owner} must be a plain function"


@pytest.mark.parametrize("wrap", [staticmethod, classmethod])
@pytest.mark.parametrize("method", CASES)
def test_a_static_method_or_a_class_method_is_async_where_it_is_awaited(
    method: Method, wrap: Callable[..., Any]
) -> None:
    first = "cls" if wrap is classmethod else ""
    message = error(method, wrap(method.define(*method.names, is_async=not method.is_async, first=first)))
    assert "must be" in message


@pytest.mark.parametrize("method", CASES)
def test_an_async_generator_is_an_error(method: Method) -> None:
    message = error(method, method.define(*method.names, is_async=True, body="yield"))
    expected = "async without a yield" if method.is_async else "a plain function"
    assert message == f"is an async generator; {method.owner} must be {expected}"


async def produce(self: Any, request: Any, pool: Any) -> Any:
    return {}


def returns_awaitable(self: Any, request: Any, pool: Any) -> Awaitable[Any]:
    return produce(self, request, pool)


def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def wrapper(self: Any, request: Any, pool: Any) -> Any:
        return call(self, request, pool)

    return wrapper


def wrapped_without_wraps(call: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        return call(*arguments, **keywords)

    return wrapper


@pytest.mark.parametrize(
    "attribute",
    [
        pytest.param(returns_awaitable, id="annotated"),
        pytest.param(wrapped(produce), id="decorated"),
        pytest.param(wrapped_without_wraps(produce), id="decorated without functools.wraps"),
        pytest.param(lambda *_: None, id="lambda of any arguments"),
    ],
)
def test_a_plain_function_that_may_return_an_awaitable_fits(attribute: Any) -> None:
    assert Producer in describe(type("Mine", (), {"produce": attribute}), "mine.py:Mine").extension_points


def test_a_decorated_method_has_the_signature_of_the_decorator_s_wrapper() -> None:
    def with_weight(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapper(self: Any, request: Any, candidates: Any) -> Any:
            return call(self, request, candidates, 2.0)

        return wrapper

    attribute = with_weight(lambda self, request, candidates, weight: [weight] * len(candidates))
    assert Scorer in describe(type("Mine", (), {"score": attribute}), "mine.py:Mine").extension_points


# -- arguments


def plural(count: int) -> str:
    return f"{count} argument{'s' * (count != 1)}"


@pytest.mark.parametrize("method", CASES)
def test_one_more_required_argument_is_an_error(method: Method) -> None:
    message = error(method, method.define(*method.names, "more"))
    assert message == f"takes {plural(len(method.names) + 1)} after self; expected {method.form}"


@pytest.mark.parametrize("method", [case for case in CASES if case.values[0].names])
def test_one_argument_less_is_an_error(method: Method) -> None:
    message = error(method, method.define(*method.names[1:]))
    assert message == f"takes {plural(len(method.names) - 1)} after self; expected {method.form}"


@pytest.mark.parametrize("method", [case for case in CASES if case.values[0].names])
def test_no_argument_is_an_error(method: Method) -> None:
    assert error(method, method.define()) == f"takes 0 arguments after self; expected {method.form}"


@pytest.mark.parametrize("method", CASES)
def test_no_self_is_an_error(method: Method) -> None:
    assert error(method, method.define(first="")) == f"takes no arguments, not even self; expected {method.form}"


@pytest.mark.parametrize("method", CASES)
def test_a_required_keyword_argument_is_an_error(method: Method) -> None:
    message = error(method, method.define(*method.names, "*", "now"))
    assert message == f"requires the keyword argument 'now'; expected {method.form}"


@pytest.mark.parametrize("method", [case for case in CASES if case.values[0].names])
def test_keyword_only_arguments_are_an_error(method: Method) -> None:
    message = error(method, method.define("*", *method.names))
    assert message == f"requires the keyword argument {method.names[0]!r}; expected {method.form}"


@pytest.mark.parametrize("method", [case for case in CASES if case.values[0].names])
def test_keyword_only_arguments_with_defaults_are_an_error(method: Method) -> None:
    message = error(method, method.define("*", *(f"{name}=None" for name in method.names)))
    assert message == f"takes 0 arguments after self; expected {method.form}"


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        pytest.param(function("def score(self, a, b, c, d=1)"), "takes 3 to 4 arguments after self", id="too many"),
        pytest.param(function("def score(self, a=1)"), "takes 0 to 1 argument after self", id="too few"),
        pytest.param(staticmethod(function("def score(a)")), "takes 1 argument", id="static method"),
        pytest.param(staticmethod(function("def score(self, a, b)")), "takes 3 arguments", id="static with a self"),
        pytest.param(classmethod(function("def score(cls, a)")), "takes 1 argument after cls", id="class method"),
        pytest.param(classmethod(function("def score()")), "takes no arguments, not even cls", id="no cls"),
        pytest.param(function("def score(self, a, b, c, *rest)"), "takes 3 arguments after self", id="more with rest"),
        pytest.param(Callback.__call__, None, id="a function of any arguments"),
        pytest.param(len, "takes 1 argument", id="built-in function"),
    ],
)
def test_the_error_says_how_many_arguments_the_method_takes(attribute: Any, message: str | None) -> None:
    (method,) = [method for method in METHODS if method.point is Scorer]
    if message is None:
        check(method, attribute)
    else:
        assert error(method, attribute) == f"{message}; expected score(request, candidates)"


# -- declarations of the class


@pytest.mark.parametrize(
    ("point", "name"),
    [
        pytest.param(ProfilePicker, "profile_names", id="profile picker"),
        pytest.param(Extractor, "engines", id="extractor"),
    ],
)
def test_a_class_declares_by_class_methods(point: type, name: str) -> None:
    attribute = function(f"def {name}(cls, params)", body="return ()")
    members = {other.name: other.define(*other.names) for other in METHODS if other.point is point}
    assert describe(type("Mine", (), {**members, name: classmethod(attribute)}), "mine.py:Mine").serves(point)
    with pytest.raises(PluginTypeError, match=f"the method {name} of mine.py:Mine .* must be a class method"):
        describe(type("Mine", (), {**members, name: attribute}), "mine.py:Mine")


def test_such_a_method_of_another_kind_of_plugin_may_be_anything() -> None:
    members = {"filter": function("def filter(self, request, candidates)"), "engines": function("def engines(self)")}
    assert describe(type("Mine", (), members), "mine.py:Mine").extension_points == {Filter}


# -- as reported for a configuration


def test_the_error_names_the_file_and_the_class(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    async def score(self, request, candidates):\n        return []\n")
    with pytest.raises(PluginTypeError) as caught:
        Catalogue(plugins).find(f"{path}:Mine")
    assert str(caught.value) == f"the method score of {path}:Mine is async; a Scorer's must be a plain function"


def test_each_extension_point_of_a_class_is_checked() -> None:
    members = {"filter": function("def filter(self, request, candidates)"), "score": function("def score(self)")}
    with pytest.raises(PluginTypeError, match="the method score"):
        describe(type("Mine", (), members), "mine.py:Mine")


def test_other_methods_may_be_anything() -> None:
    members = {"filter": function("def filter(self, request, candidates)"), "start": function("def start(self, a, b)")}
    found = describe(type("Mine", (), members), "mine.py:Mine")
    assert found.extension_points == {Filter}
    assert not found.serves(Lifecycle)


# -- methods that were renamed


class Follows:
    """A filter that follows requests in flight."""

    def filter(self, request, candidates): ...

    def on_entered(self, request, decision): ...

    def on_prefilled(self, decision, exact): ...

    def on_left(self, decision): ...


@pytest.mark.parametrize("others", [(), ("filter",), ("on_first_token",)], ids=str)
def test_the_old_name_of_the_first_token_is_an_error(others: tuple[str, ...]) -> None:
    attributes = {name: function(f"def {name}(self, request, other)") for name in (*others, "on_first_byte")}
    with pytest.raises(PluginTypeError) as caught:
        describe(type("Mine", (), attributes), "mine.py:Mine")
    assert str(caught.value) == "the method on_first_byte of mine.py:Mine is never called; it is on_first_token now"
    assert "first content of a response" in caught.value.hint


def test_the_old_name_of_a_listener_s_method_is_an_error() -> None:
    cls = type("Mine", (Follows,), {"on_responded": function("def on_responded(self, decision)")})
    with pytest.raises(PluginTypeError, match=r"on_responded of mine\.py:Mine is never called; it is on_prefilled now"):
        describe(cls, "mine.py:Mine")


def test_other_plugins_may_use_the_old_name_of_a_listener_s_method() -> None:
    attributes = {"filter": Follows.filter, "on_responded": function("def on_responded(self)")}
    assert describe(type("Mine", (), attributes), "mine.py:Mine").extension_points == {Filter}


def test_following_requests_is_no_extension_point() -> None:
    assert describe(Follows, "mine.py:Follows").extension_points == {Filter}


def test_the_methods_of_a_plugin_that_follows_requests_are_checked() -> None:
    cls = type("Mine", (Follows,), {"on_prefilled": function("def on_prefilled(self, decision)")})
    with pytest.raises(PluginTypeError, match=r"expected on_prefilled\(decision, exact\)"):
        describe(cls, "mine.py:Mine")
