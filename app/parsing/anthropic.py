"""The messages endpoint of the Anthropic API."""

from __future__ import annotations

from app.domain.errors import BadRequestError
from app.domain.request import InferenceRequest, RawRequest
from app.parsing.json_body import count_of, json_object, kind_of, model_of
from app.parsing.prompts import media_in, of_messages

MESSAGES_PATHS = ("messages", "messages/count_tokens")


def parse_messages(raw: RawRequest) -> InferenceRequest:
    """Parses a request of `/v1/messages` or `/v1/messages/count_tokens`. Raises `BadRequestError`."""
    fields = json_object(raw.body)
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError(f"'messages' must be a list of at least one message, found {kind_of(messages)}")
    system = fields.get("system")
    prefix = [{"role": "system", "content": system}] if system else []
    try:
        prompt = of_messages([*prefix, *messages], fields.get("tools"))
    except RecursionError:
        raise BadRequestError("the body is nested too deeply") from None
    return raw.parsed(
        model=model_of(fields),
        prompts=(prompt,),
        streaming=fields.get("stream") is True,
        max_output_tokens=count_of(fields, "max_tokens"),
        media=media_in(messages),
    )
