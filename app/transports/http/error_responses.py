"""The router's own answers."""

from __future__ import annotations

from app.transports.control_headers import REQUEST_ID
from app.transports.errors import REASON_HEADER, error_response_of, openai_body
from app.transports.http.codec.events import RequestHead
from app.transports.http.headers import value_of
from app.transports.http.response_writer import ResponseWriter
from app.transports.receiving import request_id_of

_JSON = (b"content-type", b"application/json")


def id_of(head: RequestHead | None) -> str:
    """The client's request id, or a new one."""
    return request_id_of(value_of(head.headers, REQUEST_ID.encode()) if head else "")


def send_json(writer: ResponseWriter, body: bytes, request_id: str) -> None:
    """What the router itself has to say."""
    writer.whole(200, [_JSON, (REQUEST_ID.encode(), request_id.encode())], body)


def refuse(writer: ResponseWriter, error: Exception, request_id: str, head: RequestHead | None) -> None:
    """The answer to a request that the router can't serve."""
    refusal = error_response_of(error)
    fields = [_JSON, (REQUEST_ID.encode(), request_id.encode()), (REASON_HEADER.encode(), refusal.reason.encode())]
    with_body = head is None or head.method != "HEAD"
    writer.whole(refusal.status, fields, openai_body(error), with_body=with_body)
