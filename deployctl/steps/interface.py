"""What a step is: it asks, plans, applies and proves.

`questions` and `plan` are pure: they see what is wanted and what was answered, and touch no host,
clock or file. `apply` changes the host; `prove` measures, and returns the evidence or raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.errors import StepError
from deployctl.hosts.session import Session
from deployctl.steps.identity import ReleasePaths

Phase = Literal["stage", "switch", "gate"]
"""stage: beside the serving release · switch: replaces it · gate: must pass, or the way back."""

Evidence = dict[str, Any]
"""What was measured to prove a step: JSON data, without secrets."""


@dataclass(frozen=True)
class Deployment:
    """What is wanted on one host: plain, frozen data.

    `options` holds each step's own from the playbook and the command line; `skip` the steps left
    out; `check_gates` runs gates again although nothing changed.
    """

    profile: Profile
    host: HostSettings
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()
    check_gates: bool = False
    pinned: ReleasePaths | None = None
    """This very release, whatever would follow from the profile: the way back names it."""

    def option(self, step: str, name: str, default: Any = None) -> Any:
        """A step's option."""
        return self.options.get(step, {}).get(name, default)


@dataclass(frozen=True)
class Question:
    """One thing a step must know: an operation of the agent, and the key of its answer.

    Two steps with the same key ask the same thing, once. `where` is `node` for the machine under
    a container (the host itself where there is none).
    """

    key: str
    op: str
    args: Mapping[str, Any] = field(default_factory=dict)
    where: Literal["host", "node"] = "host"


@dataclass(frozen=True)
class Unknown:
    """An answer that could not be had: `kind` is the agent's word for why."""

    kind: str
    reason: str


class Unanswered(LookupError):
    """A plan needs an answer that is unknown; the reason is its message."""


class Answers:
    """The answers of one host, by key."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        unknown = self.unknown(key)
        if unknown is not None:
            raise Unanswered(f"{key}: {unknown.reason}")
        return self._values[key]

    def renewed(self, later: Answers) -> Answers:
        """These answers, with those that were asked for again in place of the older ones."""
        return Answers({**self._values, **later._values})

    def get(self, key: str, default: Any = None) -> Any:
        """The answer, or `default` where it is unknown or was not asked."""
        value = self._values.get(key, default)
        return default if isinstance(value, Unknown) else value

    def unknown(self, key: str) -> Unknown | None:
        """Why this answer is unknown; None where it is known."""
        value = self._values.get(key, Unknown("not-asked", "it was not asked"))
        return value if isinstance(value, Unknown) else None


@dataclass(frozen=True)
class Change:
    """One difference between what is and what is wanted."""

    what: str
    old: Any = None
    new: Any = None
    why: str = ""


@dataclass(frozen=True)
class Plan:
    """What a step would do.

    unchanged: nothing, and `evidence` says what shows it · change: `changes` · check: nothing
    changes, `prove` must run · blocked: `reason` says why it cannot · unknown: `reason` says
    which answer is missing.
    """

    status: Literal["unchanged", "change", "check", "blocked", "unknown"]
    changes: tuple[Change, ...] = ()
    reason: str = ""
    evidence: Evidence = field(default_factory=dict)


class Progress(Protocol):
    """Receives a step's progress, for people to see; never needed to understand a report."""

    def __call__(self, phase: str, detail: str = "", fraction: float | None = None) -> None: ...


@dataclass
class Context:
    """What a step works with while it applies and proves.

    `session` is the host's agent, `node` the agent of the machine under it (the same session
    where there is none). `release` is the release being made. `evidence` holds that of earlier
    steps, by name. `log` writes a line about the step for people.
    """

    wanted: Deployment
    answers: Answers
    session: Session
    node: Session
    release: ReleasePaths
    progress: Progress
    log: Callable[[str], None]
    evidence: dict[str, Evidence] = field(default_factory=dict)
    base_url: Callable[[], str] = lambda: ""
    """An URL at which the served port can be reached from here (a tunnel where needed)."""


class Step(ABC):
    """One kind of work in a playbook."""

    name: ClassVar[str]
    phase: ClassVar[Phase]
    failure: ClassVar[type[StepError]]
    needs_release: ClassVar[bool] = True
    """Whether it works on the wanted release; a step that does not takes the serving one."""
    follows: ClassVar[tuple[str, ...]] = ()
    """Steps whose change makes this one run again, whatever it found for itself."""

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        """What must be known to plan."""
        return ()

    @abstractmethod
    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        """Compare wanted and actual. Pure. May raise `Unanswered`."""

    def apply(self, context: Context, plan: Plan) -> None:
        """Make the changes. Runs only where the plan's status is `change`."""
        return

    @abstractmethod
    def prove(self, context: Context) -> Evidence:
        """Measure that it is so. Runs for `change` and `check`; raises `self.failure`."""

    def fail(
        self,
        context: Context,
        what: str,
        why: str = "",
        next: str = "",
        evidence: Evidence | None = None,
    ) -> StepError:
        """This step's failure on this host, to be raised."""
        return self.failure(context.wanted.host.name, self.name, what, why, next, evidence)


@contextmanager
def blocked_as(step: Step, context: Context) -> Iterator[None]:
    """Turn an answer that is missing while applying into the step's own failure."""
    try:
        yield
    except Unanswered as error:
        raise step.fail(context, "an answer is missing", str(error)) from error
