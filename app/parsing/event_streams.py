"""Reads streams of server-sent events: their content events, and the token usage.

Lines end with LF, CRLF or CR. The data of an event is taken to be one line, as all engines send it.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from app.domain.usage import Usage
from app.parsing.usage import usage_of

LONGEST_LINE = 1024 * 1024
"""Maximum length of a line in bytes. Of a longer one only its field name is read."""

_NO_CONTENT = frozenset(("ping", "error"))
_RESPONSES = "response."
_SPECIAL = re.compile(rb'"(?:error"|ping"|response\.|usage"|meta_info")')
"""Found in all JSON that may be no content, by itself or by its type, or that may have usage."""


class EventStreamReader:
    """Reads one stream from its chunks, which may be split anywhere.

    Every event with data is content, except for pings, errors and `[DONE]`. In the Responses API only those are whose
    type ends with `.delta`: the others come without a token.
    """

    __slots__ = (
        "_at_rest",
        "_held_return",
        "_name",
        "_only_deltas",
        "_partial",
        "_skipping",
        "_start",
        "content",
        "usage",
    )

    streamed = True
    """The response is an event stream."""

    def __init__(self, *, only_deltas: bool = False) -> None:
        """`only_deltas`: the stream is one of the Responses API. If its events say so, it need not be given."""
        self.content = 0
        """Number of content events so far."""
        self.usage: Usage | None = None
        """The usage read so far."""
        self._only_deltas = only_deltas
        self._name = ""  # of the event whose lines are being read
        self._partial = bytearray()  # of a line
        self._skipping = False  # the rest of a line that is too long
        self._held_return = False  # a CR at the end of the last chunk, which may be half a CRLF
        self._at_rest = not only_deltas  # none of the above, so that JSON that is not special is content
        self._start = b"data: {"  # of the last content event

    def feed(self, data: bytes) -> None:
        """Adds a chunk of the body."""
        if (
            self._at_rest
            and data.startswith(self._start)
            and data.endswith(b"\n\n")
            and data.find(b"\n", len(self._start)) == len(data) - 2
            and data.find(b"\r") < 0
            and _SPECIAL.search(data) is None
        ):
            self.content += 1  # most chunks are one event like the last
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        if self._held_return:
            data, self._held_return = b"\r" + data, False
        if data.find(b"\r") >= 0:
            if data.endswith(b"\r"):
                data, self._held_return = data[:-1], True
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        if end:
            self._read(self._completed(data[:end]) if self._partial or self._skipping else data[:end])
        if end < len(data):
            self._keep(data[end:])
        self._at_rest = not (self._name or self._partial or self._skipping or self._held_return or self._only_deltas)

    def end(self) -> None:
        """Ends the body. An event whose line has no end does not count, but its usage does."""
        if self._held_return:
            self._held_return = False
            self._read(self._completed(b"\n"))
        self._read_usage(bytes(self._partial))
        self._partial.clear()

    def _completed(self, lines: bytes) -> bytes:
        """`lines` with the beginning of the first one, or without its rest if it is too long."""
        if self._skipping:
            self._skipping = False
            return lines.partition(b"\n")[2]
        lines = bytes(self._partial) + lines
        self._partial.clear()
        return lines

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._partial += data
        if len(self._partial) > LONGEST_LINE:
            self._skipping = True
            self._read_long_line(self._partial)
            self._partial.clear()

    def _read(self, lines: bytes) -> None:
        """Reads complete lines."""
        special = _SPECIAL.search(lines) is not None
        for line in lines[:-1].split(b"\n"):
            if not line:
                self._name = ""
            elif len(line) > LONGEST_LINE:
                self._read_long_line(line)
            elif line.startswith(b"data:"):
                self._read_data(line, special=special)
            elif line.startswith(b"event:"):
                self._name = line[6:].strip().decode(errors="replace")

    def _read_data(self, line: bytes, *, special: bool) -> None:
        if self._is_content(line[5:].strip(), special=special):
            self.content += 1
            self._start = b"event: %b\ndata: {" % self._name.encode() if self._name else b"data: {"
        if special:
            self._read_usage(line)

    def _read_long_line(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data:"):
            self.content += self._is_of_content(self._name)

    def _is_content(self, data: bytes, *, special: bool) -> bool:
        if not data or data == b"[DONE]":
            return False
        if self._name.startswith(_RESPONSES):
            return self._is_of_content(self._name)
        fields: dict[str, Any] = {}
        if (special and _SPECIAL.search(data)) or (self._only_deltas and not self._name):
            fields = _object_in(data)
        return not fields.get("error") and self._is_of_content(self._name or str(fields.get("type", "")))

    def _is_of_content(self, kind: str) -> bool:
        """Whether events of this name or type are content."""
        if self._only_deltas or kind.startswith(_RESPONSES):
            return kind.endswith(".delta")
        return kind not in _NO_CONTENT

    def _read_usage(self, line: bytes) -> None:
        if line.startswith(b"data:") and len(line) <= LONGEST_LINE:
            found = usage_of(line[5:])
            if found is not None:
                self.usage = found if self.usage is None else self.usage.updated(found)


def _object_in(data: bytes) -> dict[str, Any]:
    """The JSON object; empty if it is anything else."""
    try:
        fields = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return fields if isinstance(fields, dict) else {}
