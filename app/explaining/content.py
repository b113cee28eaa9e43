"""An explanation as plain data: what `--json` prints, and what the tables show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from app.domain.decision import PluginFault, ProfileResult
from app.domain.facts import AnyFactKey, EndpointFactKey, FactKey
from app.domain.request import InferenceRequest
from app.explaining.explanation import Explanation
from app.transports.errors import error_response_of, openai_body

Content = Mapping[str, Any]


def as_json(content: Content) -> str:
    """One JSON object, indented. An infinite number is null."""
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def content_of(explained: Explanation, seed: int) -> Content:
    """The whole explanation, in the order in which the decision was made."""
    decision = explained.decision
    return {
        "seed": seed,
        "request": _request(explained.request, explained.facts),
        "endpoints": _endpoints(explained),
        "profile_picker": explained.profile_picker,
        "profiles": [_profile(name, result, explained) for name, result in explained.results.items()],
        "winner": None
        if decision is None
        else {
            "endpoint": decision.endpoint.name,
            "address": decision.endpoint.authority,
            "profile": decision.primary,
        },
        "refusal": _error_response(explained),
        "faults": [_fault(fault) for fault in explained.faults],
    }


def _request(request: InferenceRequest, facts: Sequence[AnyFactKey]) -> Content:
    return {
        "method": request.method,
        "path": _encodable(request.path),
        "model": _encodable(request.model),
        "adapter": None if request.adapter is None else _encodable(request.adapter),
        "streaming": request.streaming,
        "prompt_bytes": request.prompt_bytes,
        "prompt_tokens": request.prompt_tokens,
        "facts": {
            str(key): _shown(request.facts.get(key)) if key in request.facts else None
            for key in facts
            if isinstance(key, FactKey)
        },
    }


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which JSON can hold, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(fact: object) -> Any:
    """A number or text as it is, a dataclass as a mapping of the numbers and texts in it, anything else as its type."""
    if fact is None or isinstance(fact, bool | int | float | str):
        return fact
    if not is_dataclass(fact):
        return type(fact).__name__
    values = {field.name: getattr(fact, field.name) for field in fields(fact)}
    return {
        name: value for name, value in values.items() if value is None or isinstance(value, bool | int | float | str)
    }


def _endpoints(explained: Explanation) -> Sequence[Content]:
    every = explained.endpoints
    facts = {str(key): every.fact(key).tolist() for key in explained.facts if isinstance(key, EndpointFactKey)}
    columns = zip(
        every, every.metrics, every.known.tolist(), every.waiting.tolist(), every.running.tolist(),
        every.kv_cache_usage.tolist(), every.in_flight.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            "name": endpoint.name,
            "address": endpoint.authority,
            "labels": dict(sorted(endpoint.labels.items())),
            "serves_model": endpoint.name in explained.serving,
            "models": explained.models[endpoint.name],
            "metrics": "known" if known else "unknown",
            "engine": metrics.engine if metrics else "",
            "waiting": _number(waiting),
            "running": _number(running),
            "kv_cache_usage": usage,
            "in_flight": int(in_flight),
            "running_adapters": sorted(metrics.running_adapters) if metrics else [],
            "waiting_adapters": sorted(metrics.waiting_adapters) if metrics else [],
            "facts": {key: _number(column[row]) for key, column in facts.items()},
        }
        for row, (endpoint, metrics, known, waiting, running, usage, in_flight) in enumerate(columns)
    ]


def _profile(name: str, result: ProfileResult, explained: Explanation) -> Content:
    picked = [endpoint.name for endpoint in result.endpoints]
    totals = result.scored.totals.tolist()
    order = sorted(range(len(totals)), key=totals.__getitem__, reverse=True)
    raw, weighted = result.scores.T.tolist(), (result.scores.T * result.weights).tolist()
    names = result.scored.candidates.names
    return {
        "name": name,
        "primary": explained.decision is not None and explained.decision.primary == name,
        "filters": [
            {"name": step.plugin, "kept": list(step.given.where(step.kept).names), "dropped": list(step.dropped)}
            for step in result.filters
        ],
        "scorers": [
            {"name": scorer, "weight": weight}
            for scorer, weight in zip(result.scorers, result.weights.tolist(), strict=True)
        ],
        "scores": [
            {
                "endpoint": names[row],
                "scorers": {
                    scorer: {"raw": raw[row][column], "weighted": weighted[row][column]}
                    for column, scorer in enumerate(result.scorers)
                },
                "total": totals[row],
            }
            for row in order
        ],
        "picker": explained.pickers.get(name),
        "picked": picked,
    }


def _error_response(explained: Explanation) -> Content | None:
    error = explained.error
    if error is None:
        return None
    response = error_response_of(error)
    return {
        "status": response.status,
        "reason": response.reason,
        "message": orjson.loads(openai_body(error))["error"]["message"],
        "left_none": [
            {"profile": name, "filter": result.filters[-1].plugin}
            for name, result in explained.results.items()
            if result.filters and not len(result.scored)
        ],
    }


def _fault(fault: PluginFault) -> Content:
    cause = fault.cause if isinstance(fault.cause, str) else f"{type(fault.cause).__name__}: {fault.cause}"
    return {"plugin": fault.plugin, "extension_point": fault.extension_point, "cause": cause}


def _number(value: float) -> float:
    """`value`, as an integer if it is whole."""
    return int(value) if value.is_integer() else value
