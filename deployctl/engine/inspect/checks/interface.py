"""What a check is: it asks, and judges the answers. Pure, but for a check of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.config.profile import Profile
from deployctl.steps.gpus.finding import Finding, Verdict
from deployctl.steps.interface import Answers, Deployment, Question


@dataclass(frozen=True)
class Here:
    """This machine, as far as a profile needs it (None: no profile was named)."""

    profile: Profile | None
    environ: Mapping[str, str]


@dataclass(frozen=True)
class There:
    """A host's answers. `asked` is when they were asked for and when they were there, by the clock
    of this machine (seconds since 1970)."""

    wanted: Deployment
    answers: Answers
    asked: tuple[float, float]


@dataclass(frozen=True)
class HereCheck:
    """A check of this machine."""

    name: str
    judge: Callable[[Here], Iterable[Finding]]


@dataclass(frozen=True)
class HostCheck:
    """A check of a host: what must be known, and what is found."""

    name: str
    questions: Callable[[Deployment], Sequence[Question[Any]]]
    judge: Callable[[There], Iterable[Finding]]


def found(
    check: str,
    verdict: Verdict,
    measured: object,
    say: str = "",
    lines: Sequence[str] = (),
    where: str = "the host",
) -> Finding:
    """A finding, with what to run or write and where."""
    return Finding(check, verdict, measured, None, say, where if lines else "", tuple(lines))
