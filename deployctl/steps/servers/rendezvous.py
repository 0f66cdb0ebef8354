"""The ranks of a starting group: each tells how far it is, and the head ends a wait for nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployctl import cancel
from deployctl.agent.wire.answers import UnitState, UnitStopped
from deployctl.errors import NotReady
from deployctl.hosts.operations import units
from deployctl.hosts.session import Call, known
from deployctl.steps.interface import Context, Step
from deployctl.steps.member import SEE, TOGETHER, PeerFailed, first_to_fail
from deployctl.steps.servers.process import identity
from deployctl.steps.servers.ranks import group_of
from deployctl.steps.servers.stopping import stop_unit
from deployctl.vllm.logs.lines import bare
from deployctl.vllm.logs.phases import Startup
from deployctl.vllm.logs.ranks import Stage, stage
from deployctl.vllm.logs.server import explain

POLL = 0.5
"""Seconds between two looks at a starting rank."""
OTHERS_WORDS = 15.0
"""Seconds in which a rank that ended before this one is seen and reported."""
OWN_END = 3.0
"""Seconds in which a rank that lost another may be seen to have ended by itself."""
OURS = "deployctl:"
"""How lines begin that its supervisor has added."""
TAIL = 1000
"""Characters of a log that are shown where nothing in it is known."""
PROGRESS, READY = "progress", "proven"


@dataclass(frozen=True)
class Standing:
    """How far one rank is: its stage, since when (monotonic seconds), and its log's phase."""

    stage: Stage
    since: float
    phase: str


class Rendezvous:
    """One rank's view of how the group comes together."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stage: Stage = "starting"
        self._since = time.monotonic()

    def look(self, text: str, phase: str) -> None:
        """Take what is new in this rank's log, and tell the others; raises `PeerFailed` where
        another one failed."""
        if self._context.wanted.member is None:
            return
        now = stage(text, self._stage)
        if now != self._stage:
            self._stage, self._since = now, time.monotonic()
        self._context.peers.tell(PROGRESS, Standing(now, self._since, phase))
        self._context.peers.check()

    def blamed(self, unit: UnitState) -> str:
        """Which rank failed first and with which words, where this one's server ended since
        another had; empty where it ended by itself."""
        member, lost = self._context.wanted.member, unit.get("lost")
        if member is None or not lost:
            return ""
        end = time.monotonic() + OTHERS_WORDS
        while time.monotonic() < end:
            try:
                self._context.peers.check()
            except PeerFailed as error:
                return first_to_fail(member, error)
            cancel.sleep(POLL)
        return lost

    def overdue(self) -> tuple[str, str]:
        """What is wrong and what it may come from, once the ranks have not met within the bound;
        empty while they may still."""
        member = self._context.wanted.member
        if member is None:
            return "", ""
        bound = group_of(self._context.wanted).rendezvous
        told: Mapping[str, Standing] = self._context.peers.told(PROGRESS)
        waiting = [one.since for one in told.values() if one.stage == "waiting"]
        if not waiting or time.monotonic() - min(waiting) < bound:
            return "", ""
        missing = [
            (member.named(rank), told.get(host))
            for rank, host in enumerate(member.hosts)
            if host not in told or told[host].stage == "starting"
        ]
        within = f"within {bound:g} s"
        if missing:
            names = ", ".join(name for name, _ in missing)
            phases = "; ".join(
                f"{name}: {one.phase if one else 'unknown'}" for name, one in missing
            )
            return f"{names} did not come to the rendezvous {within}", f"its last phase: {phases}"
        named = ", ".join(
            member.named(rank)
            for rank, host in enumerate(member.hosts)
            if told[host].stage == "waiting"
        )
        port = group_of(self._context.wanted).master_port
        why = f"they wait at {member.head}:{port}; ports between the hosts that are closed look so"
        return f"the ranks do not meet {within}: {named} still wait", why


class Following:
    """A rank without an API, followed until the head is ready, or one of them fails."""

    def __init__(self, step: Step, context: Context) -> None:
        self.step, self.context = step, context
        self.unit_id = context.wanted.unit_id
        self.startup = Startup()
        self.began = time.monotonic()
        self.offset, self.text = 0, ""
        self.rendezvous = Rendezvous(context)

    def prove(self) -> dict[str, Any]:
        """Until the head is ready, while this rank runs."""
        try:
            while True:
                unit = self._look()
                if READY in self.context.peers.told(READY).values():
                    break
                cancel.sleep(POLL)
            self.context.session.call(units.keep, **self.unit_id, **identity(unit))
        except PeerFailed as error:
            raise self._lost(error) from error
        member = self.context.wanted.member
        return {
            **identity(unit),
            "started": unit["started"],
            "release": unit["release"],
            "kind": unit["kind"],
            "rank": member and member.rank,
            "seconds": round(time.monotonic() - self.began, 2),
        }

    def abandon(self) -> UnitStopped | None:
        """Stop a start that failed."""
        unit = self.context.session.call(units.state, **self.unit_id)
        return None if unit.get("kept") else stop_unit(self.context.session, self.context.wanted)

    def _look(self) -> UnitState:
        unit, log = self.context.session.ask(
            (
                Call(units.state, **self.unit_id),
                Call(units.log, **self.unit_id, offset=self.offset),
            )
        )
        unit, part = known(unit), known(log)
        self.offset, self.text = part["offset"], (self.text + part["text"])[-(1 << 20) :]
        self.startup.feed(part["text"], time.monotonic() - self.began)
        if unit["state"] != "running" or unit["release"] != self.context.release.release:
            raise self._ended(unit)
        self.context.progress(self.startup.phase, self.startup.detail)
        self.rendezvous.look(part["text"], self.startup.phase)
        return unit

    def _lost(self, error: PeerFailed) -> NotReady:
        """Another rank failed; where this one had ended before, that is what went wrong here."""
        end = time.monotonic() + OWN_END
        while time.monotonic() < end:
            unit = self.context.session.call(units.state, **self.unit_id)
            if unit["state"] != "running":
                return self._ended(unit)
            cancel.sleep(POLL)
        member = self.context.wanted.member
        assert member is not None, "it has other ranks"
        return self._failure(first_to_fail(member, error), TOGETHER, SEE)

    def _ended(self, unit: UnitState) -> NotReady:
        log = self.context.session.call(units.log, **self.unit_id, offset=self.offset)
        text = self.text + log["text"]
        said = explain(text)
        first = self.rendezvous.blamed(unit)
        if first:
            return self._failure(first, TOGETHER, SEE)
        status = "" if unit["rc"] is None else f", status {unit['rc']}"
        if unit["rc"] is not None and unit["rc"] < 0:
            status = f", killed by signal {-unit['rc']}"
        what = f"this rank ended: {unit['error'] or unit['state']}{status}"
        why = "\n".join([what, *said.lines] if said.sentence else said.lines)
        why = why or text.strip()[-TAIL:]
        last = said.lines[0] if said.lines else last_words(text)
        own = f"{what}: {last}" if last else what
        return self._failure(said.sentence or own, why, said.next or "read its log: deployctl logs")

    def _failure(self, what: str, why: str, next: str) -> NotReady:
        evidence = {
            "phase": self.startup.phase,
            "seconds": round(time.monotonic() - self.began, 2),
        }
        failure = self.step.fail(self.context, what, why, next, evidence)
        assert isinstance(failure, NotReady)
        return failure


def last_words(log: str) -> str:
    """The last line of a server's own in its log."""
    lines = (bare(line).strip() for line in reversed(log.splitlines()))
    return next((line for line in lines if line and not line.startswith(OURS)), "")[:TAIL]
