"""Responses of the router's own."""

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
    """Sends a JSON response with status 200."""
    writer.send(200, [_JSON, (REQUEST_ID.encode(), request_id.encode())], body)


def refuse(writer: ResponseWriter, error: Exception, request_id: str, head: RequestHead | None) -> None:
    """Sends the error response to a request that can't be served because of `error`."""
    response = error_response_of(error)
    fields = [_JSON, (REQUEST_ID.encode(), request_id.encode()), (REASON_HEADER.encode(), response.reason.encode())]
    with_body = head is None or head.method != "HEAD"
    writer.send(response.status, fields, openai_body(error), with_body=with_body)
