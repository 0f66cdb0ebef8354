"""The first phase of a placement's part of a run: the lock, and everything that must be known.

Where a profile has two units beside each other, this finds the one to work in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger import lock, rollback
from deployctl.engine.ledger.record import HostRecord, RunRecord
from deployctl.engine.run import events, front, together
from deployctl.engine.run.front import Front
from deployctl.engine.run.members import Members
from deployctl.engine.run.options import Options
from deployctl.engine.run.pair import Pair
from deployctl.engine.run.plan import needs_release, questions, stays, wanted_release
from deployctl.engine.run.resolve import Resolution, settle
from deployctl.engine.run.resting import resting_processes
from deployctl.engine.run.turns import Turns
from deployctl.engine.shipping.meeting import Meeting
from deployctl.engine.strategies.registry import strategy
from deployctl.errors import RemoteError
from deployctl.steps.facts import RELEASES, known_releases
from deployctl.steps.interface import STOPPED, Answers, Deployment, Question, Step
from deployctl.steps.servers import siblings

CURRENT = "current"


@dataclass
class Asking:
    """What a placement's part of a run has, and what it asks before it plans."""

    run_record: RunRecord
    record: HostRecord
    wanted: Deployment
    steps: Sequence[Step]
    options: Options
    listen: events.Listener
    resolution: Resolution
    turns: Turns
    meeting: Meeting
    members: Members
    pair: Pair | None = field(default=None, init=False)
    """The two units that it goes between, where the profile has two."""
    astray: bool = field(default=False, init=False)
    """Whether another release is current here than on the head of its group."""

    def ask(self, connected: Connected) -> Answers:
        """Take the lock and ask everything, in one round trip where the lock is free."""
        made = frozenset[str]().union(*(step.produces for step in self.steps))
        if strategy(self.wanted.profile).beside and STOPPED not in made:
            answers, release = self._ask_pair(connected)
        else:
            release, asked = self.options.release, self._questions()
            answers = self._settled(connected, asked, self._locked(connected, asked))
        if not release:
            self.wanted, answers = self.meeting.settle(connected, self.steps, self.wanted, answers)
            return self._led(answers)
        answers = self._pin(connected, self._led(answers), release)
        rollback.refuse_damaged(self.wanted, answers[RELEASES])
        return answers

    def _ask_pair(self, connected: Connected) -> tuple[Answers, str]:
        """Take the lock, find the unit to work in, and ask everything about that. Where an earlier
        release is to be served, which one of that unit."""
        base, release = self.wanted, self.options.release
        told = self._locked(connected, front.questions(base))
        self.pair = pair = Pair.of(Front.of(base, connected.session, told), told)
        staying = False
        serves = Answers({})
        if pair.front.live is not None:
            serves = answers = self._ask_unit(connected, base, pair.front.live)
            pair.current = answers[RELEASES]["current"]
            staying = release == CURRENT if release else self._stays(answers)
        pair.handover = strategy(base.profile).handover(pair.front.live, staying)
        if staying:
            return answers, release
        resting = resting_processes(base.profile, pair.serving)
        answers = self._ask_unit(connected, base, pair.handover.unit, resting)
        declined = self.options.only_if_changed and pair.front.live and self._declined(answers)
        if declined:
            pair.handover = strategy(base.profile).handover(pair.front.live, stays=True)
            return self._ask_unit(connected, base, pair.handover.unit), CURRENT
        pair.rest(self.wanted, answers, serves)
        # What was served before lies in the unit beside the one that serves.
        return answers, CURRENT if release == rollback.PREVIOUS else release

    def _ask_unit(
        self,
        connected: Connected,
        base: Deployment,
        unit: str,
        resting: frozenset[tuple[int, int]] = frozenset(),
    ) -> Answers:
        wanted = siblings.of_unit(base, unit)
        self.wanted, self.record.unit = replace(wanted, resting=resting), unit
        asked = self._questions()
        return self._settled(connected, asked, ask(connected, asked)[0])

    def _stays(self, answers: Answers) -> bool:
        found = answers[RELEASES]["current"], wanted_release(self.wanted, answers)
        return stays(self.steps, self.wanted, *found)

    def _questions(self) -> dict[str, Question[Any]]:
        asked = questions(self.steps, self.wanted)
        return {RELEASES: asked[RELEASES]} if self.options.release else asked

    def _locked(self, connected: Connected, asked: Mapping[str, Question[Any]]) -> Answers:
        """Take the lock and ask in the same round trip, where the lock is free and in no order."""
        name, run = self.wanted.profile.name, self.run_record
        take = lock.take(name, run.run, playbook=run.playbook, unit=self.wanted.unit)
        moving = any(question.moving for question in self._questions().values())
        in_order = self.options.lock_wait > 0 and self.turns.bound(moving)
        if in_order:
            self.turns.lock(self.record.host)
        follows = self.turns.follows(self.record.host)
        answers, (taken,) = ask(connected, {} if in_order or follows else asked, [take])
        if isinstance(taken, RemoteError):
            self._wait(connected, taken)
        self.turns.locked(self.record.host)
        if follows:
            self.turns.after_the_one_before(self.record.host)
        if in_order or follows or isinstance(taken, RemoteError):
            # What was answered before the other run ended is stale by the time we hold the lock.
            answers, _ = ask(connected, asked)
        return answers

    def _settled(
        self, connected: Connected, asked: Mapping[str, Question[Any]], answers: Answers
    ) -> Answers:
        self.wanted, answers = settle(
            self.resolution,
            connected,
            self.steps,
            self.wanted,
            asked,
            answers,
            self.turns.slots,
        )
        return answers

    def _led(self, answers: Answers) -> Answers:
        """The answers, with what is current on the head of its group."""
        answers, self.astray = together.led(self.members, self.record.host, answers)
        return answers

    def _pin(self, connected: Connected, answers: Answers, release: str) -> Answers:
        """Turn to an earlier release: nothing is staged for it, and its questions are its own."""
        current = answers[RELEASES]["current"]
        self.record.previous = current
        if not self.members.alone:
            release = self._agreed(answers, release)
        self.wanted = rollback.pin(self.wanted, answers[RELEASES], release)
        self.record.earlier = True
        self.steps = [s for s in self.steps if s.phase != "stage" or not s.needs_release]
        answers = ask(connected, questions(self.steps, self.wanted))[0]
        return answers if self.members.alone else together.with_current(answers, current)

    def _agreed(self, answers: Answers, release: str) -> str:
        """The release that the head finds under a name."""
        own = ""
        if self.wanted.role == "head":
            own = rollback.resolve(self.wanted.profile.name, answers[RELEASES], release)
        return str(together.agreed(self.members, self.record.host, f"release {release}", own))

    def _unless_known_to_fail(self, connected: Connected, answers: Answers) -> Answers:
        """Turn to what is current where the wanted release failed before; it may need healing."""
        if self.pair is not None or known_releases(answers)["current"] is None:
            return answers
        declined = self.members.any(self.record.host, "declined", self._declined(answers))
        return self._pin(connected, answers, CURRENT) if declined else answers

    def _declined(self, answers: Answers) -> bool:
        """Whether the wanted release failed before, and nothing has changed since."""
        release = wanted_release(self.wanted, answers) if needs_release(self.steps) else None
        found = known_releases(answers)
        digest = ledger.profile_digest(self.wanted.profile)
        before = ledger.failed_before(found["ledger"], release, digest)
        if before is None or found["current"] == release:
            return False
        text = f"release {release} failed in run {before}: not retried, nothing changed since"
        self.record.declined = text
        self.listen(events.StepNote(self.record.host, "ledger", text))
        return True

    def _wait(self, connected: Connected, taken: RemoteError) -> None:
        if taken.kind != "locked":
            raise taken
        if not self.options.lock_wait:
            raise lock.held(self.record.host, taken)
        self.listen(events.Waiting(self.record.host, lock.describe(taken.detail or {})))
        # The others do not stay for as long as that may take; it shares with those still to come.
        self.meeting.left(self.record.host)
        name, run = self.wanted.profile.name, self.run_record
        unit, wait = self.wanted.unit, self.options.lock_wait
        waited = lock.take(name, run.run, wait, run.playbook, unit)
        with self.turns.slots.given():
            (again,) = connected.session.ask([waited])
        if isinstance(again, RemoteError):
            raise lock.held(self.record.host, again)
