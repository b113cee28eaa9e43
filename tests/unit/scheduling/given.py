"""Tiny plugins that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.domain.candidates import Candidates
from app.domain.decision import Decision, ProfileResult, Scored
from app.domain.endpoint import Endpoint
from app.domain.named import Named
from app.domain.request import InferenceRequest
from app.scheduling.profile import Profile


def answer_of(answer: Any, *given: Any) -> Any:
    """`answer`, or what it gives when it is a function; an exception is raised."""
    if isinstance(answer, Exception):
        raise answer
    return answer(*given) if callable(answer) else answer


class FakeFilter:
    """Keeps what it is told to keep, and remembers whom it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.given: list[tuple[str, ...]] = []

    def filter(self, request: InferenceRequest, candidates: Candidates) -> Any:
        self.given.append(candidates.names)
        return answer_of(self.answer, candidates)


class FakeScorer:
    """Scores as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked = 0

    def score(self, request: InferenceRequest, candidates: Candidates) -> Any:
        self.asked += 1
        return answer_of(self.answer, candidates)


class FakePicker:
    """Picks as it is told: by default everyone, most points first."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def pick(self, request: InferenceRequest, scored: Scored) -> Any:
        return most_points_first(scored) if self.answer is None else answer_of(self.answer, scored)


class FakeProfilePicker:
    """Asks for the lists of names given, one list a round, and concludes with the last profile that ran."""

    def __init__(self, *rounds: Any, conclusion: Any = None) -> None:
        self.rounds = list(rounds)
        self.conclusion = conclusion
        self.seen: list[tuple[str, ...]] = []

    def pick_profiles(
        self, request: InferenceRequest, profiles: Sequence[str], finished: Mapping[str, ProfileResult]
    ) -> Any:
        self.seen.append(tuple(finished))
        return answer_of(self.rounds.pop(0) if self.rounds else ())

    def conclude(self, request: InferenceRequest, finished: Mapping[str, ProfileResult]) -> Any:
        if self.conclusion is None:
            return Decision(list(finished)[-1], finished)
        return answer_of(self.conclusion, finished)


def most_points_first(scored: Scored) -> Sequence[Endpoint]:
    """All candidates by points, equal ones in their order."""
    return [scored.candidates[row] for row in sorted(range(len(scored)), key=lambda row: -scored.totals[row])]


def keep(*names: str) -> Callable[[Candidates], list[bool]]:
    """A filter's answer: those named."""
    return lambda candidates: [name in names for name in candidates.names]


def make_profile(
    name: str = "default",
    *,
    filters: Sequence[Any] = (),
    scorers: Sequence[Any] = (),
    weights: Sequence[float] | None = None,
    picker: Any = None,
) -> Profile:
    """A profile of plugins called `filter-0`, `scorer-0`, … and `picker`."""
    return Profile(
        name,
        filters=[Named(f"filter-{row}", FakeFilter(answer)) for row, answer in enumerate(filters)],
        scorers=[Named(f"scorer-{row}", FakeScorer(answer)) for row, answer in enumerate(scorers)],
        weights=[1.0] * len(scorers) if weights is None else weights,
        picker=Named("picker", FakePicker(picker)),
    )
