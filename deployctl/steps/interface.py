"""What a step is: it asks, plans, applies and proves.

`questions` and `plan` are pure: they see what is wanted and what was answered, and touch no host,
clock or file. `apply` changes the host; `prove` measures, and returns the evidence or raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from deployctl.config.base import Settings
from deployctl.config.host import HostSettings
from deployctl.config.profile import Profile
from deployctl.errors import StepError
from deployctl.hosts.session import Session
from deployctl.steps.answers import WHOLE_ANSWER as WHOLE_ANSWER
from deployctl.steps.answers import Answers as Answers
from deployctl.steps.answers import Key as Key
from deployctl.steps.answers import Question as Question
from deployctl.steps.answers import Unanswered as Unanswered
from deployctl.steps.answers import Unknown as Unknown
from deployctl.steps.delivery import Delivery
from deployctl.steps.identity import MAIN, ReleasePaths, UnitId, full_name
from deployctl.steps.member import Member, NoPeers, Peers, Role

Phase = Literal["stage", "switch", "gate"]
"""stage: beside the serving release · switch: replaces it · gate: must pass, else rollback."""

RANKS: frozenset[Role] = frozenset({"server", "head", "worker"})
"""Every placement of a model; alone, or with others."""
ANSWERING: frozenset[Role] = frozenset({"server", "head"})
"""The placements that clients reach."""

ENVIRONMENT, MODELS, DRAFTER_CONFIG = "environment", "models", "drafter-config"
RELEASE_PARTS = (ENVIRONMENT, MODELS, DRAFTER_CONFIG)
"""What a release consists of before it serves."""
SERVER, SERVICE, STOPPED = "server", "service", "stopped"
"""A started server, one that is proven ready, and the end of all of a profile's servers."""

Evidence = dict[str, Any]
"""What was measured to prove a step: JSON data, without secrets."""


@dataclass(frozen=True)
class Deployment:
    """What is wanted of one unit on one host: plain, frozen data.

    `options` holds each step's own from the playbook and the command line; `skip` the steps left
    out; `check_gates` runs gates again although nothing changed.
    """

    profile: Profile
    host: HostSettings
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skip: frozenset[str] = frozenset()
    check_gates: bool = False
    settled: Mapping[str, Any] = field(default_factory=dict)
    """What moving names stand for in this run, by the key of the question about each."""
    deliveries: Mapping[str, Delivery] = field(default_factory=dict)
    """What this host gets from others or makes for them, by artifact."""
    pinned: ReleasePaths | None = None
    """This very release, whatever would follow from the profile: a rollback names it."""
    unit: str = MAIN
    """Which unit of the profile; where it has several, `profile` has the port and GPUs of this."""
    member: Member | None = None
    """Its part in a group; None for a server of its own."""
    resting: frozenset[tuple[int, int]] = frozenset()
    """The processes (pid, start) of what serves, where that sleeps while this unit is started."""
    restart: str = ""
    """Why all ranks start again together, although this one may run as wanted."""

    @property
    def role(self) -> Role:
        """What this host's placement is to its group."""
        return "server" if self.member is None else self.member.role

    @property
    def unit_id(self) -> UnitId:
        """The unit, as the agent's operations name it."""
        return {"profile": self.profile.name, "unit": self.unit}

    @property
    def owner(self) -> str:
        """The unit, as marks of processes name it: no profile's name has a slash."""
        name = self.profile.name
        return name if self.unit == MAIN else f"{name}/{self.unit}"

    @property
    def unit_name(self) -> str:
        """The unit, as people call it."""
        return full_name(self.profile.name, self.unit)

    def option(self, step: str, name: str, default: Any = None) -> Any:
        """A step's option."""
        return self.options.get(step, {}).get(name, default)


@dataclass(frozen=True)
class Change:
    """One difference between what is and what is wanted."""

    what: str
    old: Any = None
    new: Any = None
    why: str = ""


def change_sentence(change: Mapping[str, Any]) -> str:
    """A difference in words, from its entry in a document."""
    why = f"  ({change['why']})" if change["why"] else ""
    if change["old"] is None and change["new"] is None:
        return f"{change['what']}{why}"
    old = "nothing" if change["old"] is None else change["old"]
    new = "nothing" if change["new"] is None else change["new"]
    return f"{change['what']}: {old} -> {new}{why}"


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
    needless: bool = False
    """Nothing is asked of the step: it has nothing to do whatever other steps change."""


class Progress(Protocol):
    """Receives a step's progress, for people to see; never needed to understand a report."""

    def __call__(self, phase: str, detail: str = "", fraction: float | None = None) -> None: ...


class Courier(Protocol):
    """Brings artifacts between the hosts of a run."""

    def made(self, context: Context, artifact: str) -> None:
        """Say that an artifact is here and proven; the hosts that wait for it get it."""

    def receive(self, context: Context, artifact: str, folder: str) -> dict[str, Any]:
        """Wait for an artifact until it lies in a folder of this host: what was measured. Raises
        `HostError` where it does not come, and `MakesItself` where this host is to make it."""


class NoCourier:
    """For a host that shares with none."""

    def made(self, context: Context, artifact: str) -> None:
        return

    def receive(self, context: Context, artifact: str, folder: str) -> dict[str, Any]:
        raise AssertionError(f"no host brings {artifact}")


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
    courier: Courier = field(default_factory=NoCourier)
    """Brings what is shared from and to the other hosts of the run."""
    peers: Peers = field(default_factory=NoPeers)
    """The other ranks of its group."""
    base_url: Callable[[], str] = lambda: ""
    """An URL at which the served port can be reached from here (a tunnel where needed)."""
    so_far: Evidence = field(default_factory=dict)
    """What this step has measured until it was interrupted, or lost its connection."""


class NoOptions(Settings):
    """A step that takes none."""


class Step(ABC):
    """One kind of work in a playbook, and everything that others must know about it."""

    name: ClassVar[str]
    phase: ClassVar[Phase]
    failure: ClassVar[type[StepError]]
    options: ClassVar[type[Settings]] = NoOptions
    """What a playbook may give it with `with:`."""
    roles: ClassVar[frozenset[Role]] = RANKS
    """The roles of placements in which it has something to do."""
    needs_release: ClassVar[bool] = True
    """Whether it works on the wanted release; a step that does not takes the serving one."""
    produces: ClassVar[frozenset[str]] = frozenset()
    """What it makes of a deployment, such as `ENVIRONMENT` or `SERVER`."""
    uses: ClassVar[tuple[str, ...]] = ()
    """What makes it run again when another step makes it, whatever it found for itself."""
    again: ClassVar[str] = ""
    """Its option that asks for it although nothing has changed, where it may end what serves."""
    runs_release: ClassVar[bool] = False
    """Whether it runs what was built, so that its failure may be the fault of that."""
    borrows: ClassVar[bool] = False
    """Whether it may stop what serves for a time, where it plans a change; it starts it again
    itself, however it ends."""
    interruptible: ClassVar[bool] = True
    """Whether an interrupt ends it at once; half of any other is worse than its short rest."""
    figures: ClassVar[tuple[str, ...]] = ()
    """Names in its evidence by which runs are compared; the ledger keeps them."""
    compared: ClassVar[tuple[str, ...]] = ()
    """Names in its evidence by which two releases are compared."""
    head_first: ClassVar[bool] = False
    """Whether in a group the head is done with it before the others begin: requests that it still
    answers need them."""
    idle: ClassVar[str] = ""
    """What a run means in which it had nothing to do, where that is more than its phase says."""
    done: ClassVar[str] = ""
    """What a run means in which it made its change, where no server was started."""

    @property
    def is_gate(self) -> bool:
        """Whether a release must pass it to become current."""
        return self.phase == "gate"

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        """What must be known to plan."""
        return ()

    def concerns(self, wanted: Deployment, answers: Answers) -> bool:
        """Whether this host has anything to do with it; a run does not name it elsewhere. Pure."""
        return True

    @abstractmethod
    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        """Compare wanted and actual. Pure. May raise `Unanswered`."""

    def apply(self, context: Context, plan: Plan) -> None:
        """Make the changes. Runs only where the plan's status is `change`."""
        return

    def warm_up(self, context: Context) -> None:
        """Begin beside what serves what `apply` will complete, once it is this host's turn to
        switch and nothing was touched yet. It never fails: `apply` can do without."""
        return

    @abstractmethod
    def prove(self, context: Context) -> Evidence:
        """Measure that it is so. Runs for `change` and `check`; raises `self.failure`."""

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        """What its evidence adds to a release's manifest; the same keys whatever is missing."""
        return {}

    def sentence(self, ended: Mapping[str, Any]) -> str:
        """What came of it, from its entry in a report; empty where its reason says all."""
        return ""

    def details(self, evidence: Mapping[str, Any]) -> Iterator[str]:
        """Further lines about its evidence."""
        yield from ()

    def goes_on(self, wanted: Deployment, release: ReleasePaths) -> str:
        """What of it goes on at the host after an interrupt, and how to end that."""
        return ""

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
