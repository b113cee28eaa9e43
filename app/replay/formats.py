"""Reads traces, whichever format they are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from app.replay.access_log import AccessLogReader, is_access_log
from app.replay.mooncake import is_mooncake, read_mooncake
from app.replay.trace import TraceError, TraceRequest

SHOWN = 20
"""Errors that are reported at most."""

ReadLine = Callable[[Mapping[str, Any]], TraceRequest | None]
"""Reads the fields of a line; None for a line that is no request. Raises `ValueError`."""

FORMATS: Sequence[tuple[Callable[[Mapping[str, Any]], bool], Callable[[], ReadLine]]] = (
    (is_mooncake, lambda: read_mooncake),
    (is_access_log, AccessLogReader),
)
"""How a format is recognised by the first line of a trace, and what reads its lines."""


def read_trace(path: Path) -> Sequence[TraceRequest]:
    """The requests in a file, by arrival. Raises `TraceError` with the errors in it, `OSError`."""
    errors: list[str] = []
    requests: list[TraceRequest] = []
    read: ReadLine | None = None
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            fields = _object(line)
            read = read or _format_of(fields)
            request = read(fields)
        except ValueError as error:
            errors.append(f"{path}:{number}: {error}")
            if read is None or len(errors) >= SHOWN:
                break
            continue
        if request is not None:
            requests.append(request)
    if not requests and not errors:
        errors.append(f"{path}: there is no request in it")
    if errors:
        raise TraceError(errors)
    return _from_zero(sorted(requests, key=lambda request: request.arrival))


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"a line must be a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"a line must be a JSON object, found {type(fields).__name__}")  # noqa: TRY004 - reported with the others
    return fields


def _format_of(fields: Mapping[str, Any]) -> ReadLine:
    for recognised, reader in FORMATS:
        if recognised(fields):
            return reader()
    found = ", ".join(map(repr, sorted(fields)[:8])) or "no field"
    raise ValueError(
        f"unknown format with {found}; a trace has Mooncake's fields 'timestamp', 'input_length', 'output_length' and "
        "'hash_ids', or is an access log of ours"
    )


def _from_zero(requests: Sequence[TraceRequest]) -> Sequence[TraceRequest]:
    first = requests[0].arrival
    return requests if not first else [replace(one, arrival=one.arrival - first) for one in requests]
