"""Who is on the host and whose it is: the agents' answers as verdicts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from deployctl.agent.wire.gpus import Gpu, Holders, UnreadableProcess
from deployctl.hosts.operations import gpu
from deployctl.hosts.session import Call
from deployctl.steps import facts, replicas
from deployctl.steps.builds.environments import environment_key, job_id
from deployctl.steps.facts import GPUS, UNIT, UNITS, known_releases
from deployctl.steps.gpus import clean_options, profile_gpus
from deployctl.steps.gpus.holders import Process, join, pid_in
from deployctl.steps.gpus.ownership import Mine, Selection, Verdict, judge, select
from deployctl.steps.interface import Answers, Deployment, Key, Question, Unanswered
from deployctl.vllm.serving.titles import LOOK_FOR

HOLDERS = Key[Holders]("holders")
INSIDE = Key[Holders]("holders.inside")


def questions(wanted: Deployment) -> tuple[Question[Any], ...]:
    """What must be known to say who is on the host and whose it is."""
    look = Call(gpu.holders, patterns=LOOK_FOR)
    asked: list[Question[Any]] = [
        facts.unit(wanted),
        facts.release_state(wanted),
        Question(HOLDERS, look, where="node"),
        *profile_gpus.questions(wanted),
    ]
    if wanted.host.node is not None:
        asked.append(Question(INSIDE, look))
    return tuple(asked)


@dataclass(frozen=True)
class GpuSnapshot:
    """Verdicts on everybody seen, what the scope stops, and what could not be seen."""

    gpus: tuple[Gpu, ...]
    verdicts: tuple[Verdict, ...]
    selection: Selection
    mine: Mine
    blind: tuple[str, ...]
    resting: frozenset[int] = frozenset()
    """PIDs of what sleeps by the time that a server is started, as `unit_pids` has them."""
    contained: str | None = None
    """What kind of container the agent that looked runs in."""

    @property
    def unit_pids(self) -> set[int]:
        """PIDs of the unit, as the machine that looked numbers them."""
        return {
            v.process.pid
            for v in self.verdicts
            if (pid_in(v.process, self.mine.namespace), v.process.start) in self.mine.unit
        }

    def holders(self) -> list[Verdict]:
        """Those worth telling: who holds a GPU, and vLLM's processes."""
        return [v for v in self.verdicts if _telling(v.process)]

    def on(self, uuid: str) -> list[Verdict]:
        """Living holders of one GPU."""
        return [v for v in self.verdicts if not v.process.zombie and uuid in (v.process.gpus or ())]

    def memory(self) -> dict[str, int | None]:
        """Memory in use of the profile's GPUs in MiB, by index."""
        return {str(gpu["index"]): gpu["memory_used"] for gpu in self.gpus}


def _telling(process: Process) -> bool:
    return bool(process.devices or process.memory is not None or process.gpus or process.part)


def snapshot(wanted: Deployment, answers: Answers) -> GpuSnapshot:
    """The snapshot of these answers; raises `Unanswered` where whose the GPUs are is not known."""
    look = answers[HOLDERS]
    inside = answers[INSIDE] if wanted.host.node is not None else None
    if inside is not None and inside["namespace"] not in look["namespaces"]:
        raise Unanswered(f"the node sees no process of {wanted.host.name}: it does not run there")
    gpus = tuple(profile_gpus.profile_gpus(wanted, answers))
    unit = answers[UNIT]
    waits = unit.get("waits")
    environments = _environments(wanted, answers)
    members = (*unit["members"], *_surplus(wanted, answers))
    mine = Mine(
        name=wanted.owner,
        unit=frozenset((m["pid"], m["start"]) for m in members),
        environments=environments,
        jobs=frozenset(job_id(key) for key in environments),
        namespace=(inside or look)["namespace"],
        container=wanted.host.node is not None,
        gpus=frozenset(gpu["uuid"] for gpu in gpus),
        system=tuple(wanted.profile.clean.system),
        waits=(waits["pid"], waits["start"]) if waits else None,
    )
    verdicts = tuple(judge(join(look, answers[GPUS], inside), mine))
    selection = select(verdicts, mine, clean_options.scope(wanted))
    resting = frozenset(
        v.process.pid
        for v in verdicts
        if (pid_in(v.process, mine.namespace), v.process.start) in wanted.resting
    )
    blind = tuple(_blind(answers))
    return GpuSnapshot(gpus, verdicts, selection, mine, blind, resting, look["contained"])


def _surplus(wanted: Deployment, answers: Answers) -> Iterator[Any]:
    """Processes of replicas that the profile does not have any more."""
    known = answers.get(UNITS) or {}
    for unit in replicas.surplus(wanted, known):
        yield from known[unit]["members"]


def _environments(wanted: Deployment, answers: Answers) -> frozenset[str]:
    """Those of the profile's releases, and the wanted one where it is known; none that another
    profile's releases run in as well: what runs there may be theirs."""
    found = set()
    with suppress(Unanswered):
        found.add(environment_key(wanted, answers))
    known = known_releases(answers)
    for manifest in known["releases"].values():
        key = ((manifest or {}).get("identity") or {}).get("environment")
        if key:
            found.add(str(key))
    return frozenset(found.difference(known.get("elsewhere", ())))


def _blind(answers: Answers) -> Iterator[str]:
    """What was not seen; empty where no driver is loaded, for then no process holds a GPU."""
    look, state = answers[HOLDERS], answers[GPUS]
    if not look["devices"] and not state["present"]:
        return
    if look["hidden"]:
        yield look["hidden"]
    if look["unreadable_count"]:
        named = _names(look["unreadable"], look["unreadable_count"])
        yield f"what these hold cannot be read: {named}"
    if state["apps_unknown"]:
        yield f"compute processes are not known: {state['apps_unknown']}"


def _names(unreadable: Sequence[UnreadableProcess], count: int) -> str:
    shown = [f"{p['pid']} {p['comm']} ({', '.join(p['unreadable'])})" for p in unreadable[:5]]
    return ", ".join(shown) + (f" and {count - 5} more" if count > 5 else "")


def tell(verdict: Verdict) -> dict[str, Any]:
    """One holder as evidence."""
    return {**verdict.process.describe(), "verdict": verdict.word, "why": verdict.why}


def in_words(verdict: Verdict) -> str:
    """One holder in a few words for people."""
    process = verdict.process
    facts = [verdict.word, *([process.container] if process.container else [])]
    facts += [f"GPU {index}" for index in process.indices]
    facts += [] if process.memory is None else [f"{process.memory} MiB"]
    return f"PID {process.pid} {process.name!r} ({', '.join(facts)})"
