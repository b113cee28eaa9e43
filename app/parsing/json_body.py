"""What the parsers of JSON APIs share: reading a body, and saying what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Never

import numpy as np
import orjson

from app.domain.errors import BadRequestError

Body = Mapping[str, Any]

LARGE = 65536
"""Bytes of a body that numpy is worth its overhead for."""

_MODEL = b'"model"'
_QUOTE, _M = _MODEL[:2]


def json_object(body: bytes) -> Body:
    """The JSON object that a body is. Raises `BadRequestError`."""
    fields = _json(body)
    if not isinstance(fields, dict):
        raise BadRequestError(f"the body must be a JSON object, found {kind_of(fields)}")
    return fields


def _json(body: bytes) -> Any:
    """Parses fast, and slowly where that fails or where `model` may stand twice.

    The slow way also reads what engines read and orjson does not: lone surrogates in strings.
    """
    if not _may_stand_twice(body):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(body, object_pairs_hook=_refuse_two_models, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadRequestError("the body is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise BadRequestError(f"the body is not valid JSON: {error.msg.lower()} at {where}") from None
    except ValueError:
        raise BadRequestError("the body is not valid JSON: it has a number of too many digits") from None
    except RecursionError:
        raise BadRequestError("the body is nested too deep") from None


def _may_stand_twice(body: bytes) -> bool:
    """Whether `"model"` stands at two places: numpy finds the quotes of a large body much faster than `count` it."""
    if len(body) < LARGE:
        return body.count(_MODEL) > 1
    data = np.frombuffer(body, np.uint8)
    starts = np.flatnonzero(data[:-1] == _QUOTE)
    starts = starts[data[starts + 1] == _M].tolist()
    return sum(body.startswith(_MODEL, start) for start in starts) > 1


def _refuse_two_models(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and sum(key == "model" for key, _ in pairs) > 1:
        raise BadRequestError("'model' stands twice in one object of the body")
    return fields


def _refuse_constant(name: str) -> Never:
    raise BadRequestError(f"the body is not valid JSON: {name} is no number")


def model_of(fields: Body) -> str:
    """The model that a body names. Raises `BadRequestError` if it names none."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError(f"'model' must be the name of a model, found {kind_of(model)}")
    return model


def count_of(fields: Any, *keys: str) -> int | None:
    """The first of `keys` that holds a whole number of at least 0."""
    if isinstance(fields, dict):
        for key in keys:
            value = fields.get(key)
            if type(value) is int and value >= 0:  # True is an int as well
                return value
    return None


def text_or_none(value: Any) -> str | None:
    """`value` if it is text that is not empty."""
    return value if isinstance(value, str) and value else None


def kind_of(value: Any) -> str:
    """How a value is called in an error; what it holds is never echoed."""
    if value is None:
        return "nothing"
    if value in ("", [], {}):
        return f"an empty {_NAMES[type(value)]}"
    return f"a {_NAMES.get(type(value), 'value')}"


_NAMES: Mapping[type, str] = {
    bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "JSON object"
}  # fmt: skip
