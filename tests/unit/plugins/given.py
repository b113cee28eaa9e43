"""Parameters, validated as they are for a configuration: from JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from app.extension import PluginParams

if TYPE_CHECKING:
    from collections.abc import Mapping

P = TypeVar("P", bound=PluginParams)


def params_of(model: type[P], values: Mapping[str, Any]) -> P:
    """The parameters with `values`. Raises `ValidationError`."""
    return model.model_validate_json(json.dumps(values))
