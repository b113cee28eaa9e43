"""Reads the request for `explain` from a file: the body of an API call, or an envelope around one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from app.domain.request import RawRequest
from app.settings.errors import Faults, UsageError, did_you_mean
from app.settings.reader import read_yaml
from app.settings.tree import Origin, kind_of, locate
from app.settings.types import Section
from app.settings.validation import report

REQUEST_ID = "x-request-id"
DEFAULT_ID = "explained"
ENVELOPE = ("path", "method", "headers", "body")

EMBEDDING_KEYS = ("encoding_format", "dimensions")
"""Keys of a request to the Embeddings API that one to the Responses API does not have. Both have an `input`."""

_METHOD = re.compile(r"[A-Z]+")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(.*)", re.DOTALL)

Header = tuple[str, str]


def parse_path(text: str) -> str:
    """The path of a request, without its query. Raises `ValueError` for anything else, such as a URL."""
    if not text.startswith("/"):
        raise ValueError("expected a path that begins with '/'")
    return text.partition("?")[0]


def parse_header(text: str) -> Header:
    """The name and value of a header such as `Name: value`. Raises `ValueError`."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise ValueError("expected 'Name: value'")
    return match[1], match[2].strip()


def _method(text: str) -> str:
    if not _METHOD.fullmatch(text):
        raise ValueError("expected a method such as POST or GET")
    return text


class _Envelope(Section):
    path: Annotated[str, AfterValidator(parse_path)] | None = None
    method: Annotated[str, AfterValidator(_method)] = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] | None = None


def read_request(file: str, headers: Sequence[Header], path: str | None, faults: Faults) -> RawRequest | None:
    """The request in `file`; None if it has errors, which are added to `faults`.

    `headers` replace those of the envelope. `path` replaces the envelope's path or the one inferred from the body.
    Raises `UsageError` if the file can't be read.
    """
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    text, data = _object(content, file, faults)
    if data is None:
        return None
    if not _is_envelope(data):
        envelope, body = _Envelope(body=data), text.encode()
    elif (read := _envelope(data, text, file, faults)) is not None:
        envelope, body = read, b"" if read.body is None else json.dumps(read.body).encode()
    else:
        return None
    path = path or envelope.path or _path_of(envelope)
    if path is None:
        keys = "'messages', 'prompt' or 'input'"
        faults.error(
            Origin(file, 1, 1), f"the path can't be inferred from the body, which has no {keys}", "pass --path"
        )
        return None
    joined = {**_joined(envelope.headers.items()), **_joined(headers)}
    return RawRequest(joined.get(REQUEST_ID) or DEFAULT_ID, path, body, envelope.method, joined, len(body))


def _object(content: bytes, file: str, faults: Faults) -> tuple[str, dict[str, Any] | None]:
    """The text of the file and the JSON object in it; None if it is not a JSON object."""
    start = Origin(file, 1, 1)
    text = ""
    try:
        text = content.decode("utf-8-sig")
        data = json.loads(text)
    except UnicodeDecodeError:
        faults.error(start, "invalid JSON: not UTF-8 text")
    except json.JSONDecodeError as error:
        faults.error(Origin(file, error.lineno, error.colno), f"invalid JSON: {error.msg.lower()}")
    except ValueError:
        faults.error(start, "the JSON can't be read: a number has too many digits")
    except RecursionError:
        faults.error(start, "the JSON can't be read: it is nested too deeply")
    else:
        if isinstance(data, dict):
            return text, data
        faults.error(start, f"expected a JSON object, found {kind_of(data)}")
    return text, None


def _is_envelope(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("body"), dict) or (bool(data) and all(key in ENVELOPE for key in data))


def _envelope(data: Mapping[str, Any], text: str, file: str, faults: Faults) -> _Envelope | None:
    known = {key: value for key, value in data.items() if key in ENVELOPE}
    try:
        envelope = _Envelope.model_validate(known)
    except ValidationError as error:
        envelope, wrong = None, error.errors(include_url=False)
    else:
        wrong = []
    if wrong or len(known) < len(data):
        tree = read_yaml(text, file, Faults())  # JSON is nearly always YAML; if not, origins are less exact
        for key in data.keys() - known.keys():
            faults.error(locate(tree, (key,)), f"unknown key {key!r}", did_you_mean(key, ENVELOPE))
        for fault in wrong:
            report(fault, tree, faults)
        return None
    if envelope is not None and envelope.method == "POST" and envelope.body is None:
        faults.error(Origin(file, 1, 1), "the key 'body' is missing")
        return None
    return envelope


def _path_of(envelope: _Envelope) -> str | None:
    """The path inferred from the keys of the body; None if they do not determine it."""
    body = envelope.body or {}
    if "messages" in body:
        return "/v1/chat/completions"
    if "prompt" in body:
        return "/v1/completions"
    if "input" not in body:
        return None
    given = body["input"]
    texts = isinstance(given, list) and not any(isinstance(item, dict) for item in given)
    return "/v1/embeddings" if texts or any(key in body for key in EMBEDDING_KEYS) else "/v1/responses"


def _joined(headers: Iterable[Header]) -> dict[str, str]:
    """Headers as plugins see them: names in lower case, values of repeated ones joined by commas."""
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
