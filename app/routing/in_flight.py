"""The requests in flight: counted per endpoint, and kept until they end, whichever configuration decided on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.domain.decision import Decision, PluginFault
from app.domain.request import InferenceRequest
from app.extension.services import InFlightListener


@dataclass(slots=True)
class _Open:
    """A decision whose request has not ended."""

    request: InferenceRequest
    decision: Decision
    exact: bool | None = None
    """Of the first token, None before it."""


def _ignore(_: PluginFault) -> None:
    pass


class InFlightRequests:
    """Requests per endpoint name, from the decision to the last byte."""

    __slots__ = ("_counts", "_followers", "_listeners", "_open", "_report", "total")

    def __init__(self, report: Callable[[PluginFault], None] = _ignore) -> None:
        """`report` is called with each failure of a listener."""
        self._report = report
        self._counts: dict[str, int] = {}
        self._open: dict[int, _Open] = {}
        self._listeners: dict[InFlightListener, str] = {}
        self._followers: tuple[tuple[InFlightListener, str], ...] = ()
        self.total = 0

    def count(self, endpoint: str, /) -> int:
        """Requests in flight to the endpoint of that name."""
        return self._counts.get(endpoint, 0)

    def follow(self, listener: InFlightListener, name: str) -> None:
        """Calls `listener` for every decision in flight, and from now on as requests come and go, until `unfollow`.

        `name` is its plugin's, for reports of its failures. Call it in the event loop, so not in a constructor.
        """
        self._listeners[listener] = name
        self._followers = tuple(self._listeners.items())
        for one in self._open.values():
            self._call(listener, name, "on_entered", one.request, one.decision)
            if one.exact is not None:
                self._call(listener, name, "on_prefilled", one.decision, one.exact)

    def unfollow(self, listener: InFlightListener) -> None:
        """Ends `follow`."""
        self._listeners.pop(listener, None)
        self._followers = tuple(self._listeners.items())

    # -- called by the router

    def begin(self, request: InferenceRequest, decision: Decision) -> Decision:
        """Counts a decision, and returns the object that stands for it: another one if `decision` is in flight already,
        as with a ProfilePicker that returns one object twice. Whoever calls this calls `end` once."""
        if id(decision) in self._open:
            decision = replace(decision)
        self.enter(decision.endpoint.name)
        self._open[id(decision)] = _Open(request, decision)
        self._notify("on_entered", request, decision)
        return decision

    def first_token(self, decision: Decision, exact: bool) -> None:
        """Records the first content of the response, or, if it is not `exact`, the head that stands in for it."""
        self._open[id(decision)].exact = exact
        self._notify("on_prefilled", decision, exact)

    def end(self, decision: Decision) -> None:
        """Ends `begin`."""
        self.leave(decision.endpoint.name)
        del self._open[id(decision)]
        self._notify("on_left", decision)

    def enter(self, endpoint: str) -> None:
        """Counts one more. Whoever calls this calls `leave` once."""
        self._counts[endpoint] = self._counts.get(endpoint, 0) + 1
        self.total += 1

    def leave(self, endpoint: str) -> None:
        """Counts one less; an endpoint with none is forgotten, so that gone endpoints leave nothing behind."""
        left = self._counts[endpoint] - 1
        if left:
            self._counts[endpoint] = left
        else:
            del self._counts[endpoint]
        self.total -= 1

    def _notify(self, method: str, *arguments: object) -> None:
        for listener, name in self._followers:
            self._call(listener, name, method, *arguments)

    def _call(self, listener: InFlightListener, name: str, method: str, *arguments: object) -> None:
        try:
            getattr(listener, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - a plugin's failure never fails a request
            self._report(PluginFault(name, "InFlightListener", error))
