"""Helpers for the parsers of JSON APIs: decoding of bodies, and validated access to their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Never

import numpy as np
import orjson

from app.domain.errors import BadRequestError

JsonObject = Mapping[str, Any]

NUMPY_THRESHOLD = 65536
"""Body size in bytes from which searching with numpy is faster than with `bytes.count`."""

_MODEL_KEY = b'"model"'
_QUOTE, _M = _MODEL_KEY[:2]


def json_object(body: bytes) -> JsonObject:
    """Decodes a body that must be a JSON object. Raises `BadRequestError`."""
    fields = _decoded(body)
    if not isinstance(fields, dict):
        raise BadRequestError(f"the body must be a JSON object, found {kind_of(fields)}")
    return fields


def _decoded(body: bytes) -> Any:
    """Decodes with orjson. Falls back to `json` if that fails, or if `model` may be a duplicate key.

    `json` also accepts lone surrogates in strings, which engines accept and orjson rejects.
    """
    if not _may_repeat_model(body):
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(body, object_pairs_hook=_reject_duplicate_model, parse_constant=_reject_constant)
    except UnicodeDecodeError:
        raise BadRequestError("the body is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise BadRequestError(f"the body is not valid JSON: {error.msg.lower()} at {where}") from None
    except ValueError:
        raise BadRequestError("the body is not valid JSON: a number has too many digits") from None
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None


def _may_repeat_model(body: bytes) -> bool:
    """Whether `"model"` occurs more than once. In large bodies numpy finds the quotes much faster than `count`."""
    if len(body) < NUMPY_THRESHOLD:
        return body.count(_MODEL_KEY) > 1
    data = np.frombuffer(body, np.uint8)
    starts = np.flatnonzero(data[:-1] == _QUOTE)
    starts = starts[data[starts + 1] == _M].tolist()
    return sum(body.startswith(_MODEL_KEY, start) for start in starts) > 1


def _reject_duplicate_model(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and sum(key == "model" for key, _ in pairs) > 1:
        raise BadRequestError("duplicate key 'model' in an object of the body")
    return fields


def _reject_constant(name: str) -> Never:
    raise BadRequestError(f"the body is not valid JSON: {name} is not allowed")


def model_of(fields: JsonObject) -> str:
    """The required model of a request. Raises `BadRequestError` if it is missing or no text."""
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequestError(f"'model' must be the name of a model, found {kind_of(model)}")
    return model


def count_of(fields: Any, *keys: str) -> int | None:
    """The first non-negative integer under `keys`; None if there is none or `fields` is not an object."""
    if isinstance(fields, dict):
        for key in keys:
            value = fields.get(key)
            if type(value) is int and value >= 0:  # not a bool, which is an int too
                return value
    return None


def text_or_none(value: Any) -> str | None:
    """`value` if it is non-empty text, otherwise None."""
    return value if isinstance(value, str) and value else None


def kind_of(value: Any) -> str:
    """The kind of a value for error messages, which never contain the value itself."""
    if value is None:
        return "nothing"
    if value in ("", [], {}):
        return f"an empty {_KINDS[type(value)]}"
    return f"a {_KINDS.get(type(value), 'value')}"


_KINDS: Mapping[type, str] = {
    bool: "boolean", int: "number", float: "number", str: "string", list: "list", dict: "JSON object"
}  # fmt: skip
