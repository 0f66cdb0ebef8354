"""A run of a blue-green profile on one host: prove a release in the idle slot, then turn to it.

Each slot is a profile of its own, so everything that holds for a host's run holds for a slot's:
its plan, its gates, its ledger. What serves is touched by nothing until its successor has passed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from deployctl import cancel
from deployctl.cancel import Cancelled
from deployctl.engine.ledger import entries as ledger
from deployctl.engine.ledger import lock, rollback
from deployctl.engine.run import events, recovery
from deployctl.engine.run.connect import Connected
from deployctl.engine.run.interruption import left_behind
from deployctl.engine.run.plan import ask, questions, unanswered, wanted_release
from deployctl.engine.run.record import HostRecord, StepRecord, outcome
from deployctl.engine.run.resolve import settle
from deployctl.engine.run.worker import Worker, reach
from deployctl.engine.strategies import slots
from deployctl.engine.strategies.slots import Slot
from deployctl.errors import DeployError, HostError, Interrupted, RemoteError
from deployctl.hosts.operations import network, releases, units
from deployctl.hosts.session import Call
from deployctl.steps import registry
from deployctl.steps.facts import RELEASES
from deployctl.steps.interface import SERVER, STOPPED, Answers, Deployment, Unanswered
from deployctl.steps.launch import ALWAYS, LaunchStep
from deployctl.steps.servers import in_flight
from deployctl.steps.servers.process import strangers
from deployctl.steps.servers.stopping import REQUESTS, stop_unit

CURRENT = "current"
POLL = 0.5
FRONT_LIMIT = 15.0
"""Seconds for the front to listen."""


@dataclass
class BlueGreenRun:
    """One host's part of a run, for a profile with slots. `whole` is the run as it was asked."""

    whole: Worker
    live: Slot | None = None
    front: str = "absent"
    """What the profile's own unit runs: the front, a release from before, or nothing."""
    listens: slots.Address | None = None
    """Where the front was configured to listen."""

    def run(self) -> None:
        """Do it; failures are raised or in the record, as `Worker.run` has them."""
        record = self.whole.record
        made = frozenset[str]().union(*(step.produces for step in self.whole.steps))
        hooks = self.whole.hooks
        # The last hooks are the whole run's, not those of the slots' parts in it.
        self.whole = replace(self.whole, hooks=replace(hooks, final=()))
        try:
            if STOPPED in made:
                self._down()
            connected = reach(self.whole.wanted)
        except DeployError as error:
            record.error = record.error or error
            record.steps += hooks.finish(record.host, None)
            return
        with connected:
            try:
                if STOPPED not in made:
                    self._look(connected)
                    self._choose(connected, SERVER in made)
            except Unanswered as error:
                record.error = unanswered(record.host, error)
            except DeployError as error:
                record.error = record.error or error
            finally:
                # The slot's own run has counted its own.
                record.round_trips += connected.round_trips
            record.steps += hooks.finish(record.host, connected.session)

    def _choose(self, connected: Connected, launches: bool) -> None:
        """Ask the live slot's gates, keep it, or replace it."""
        if not launches:
            self._inner(self.live or "blue", self.whole.record).run()
        elif self.live is not None and self._stays(connected, self.live):
            self._inner(self.live, self.whole.record).run()
            self._retire(connected, slots.other(self.live), drain=False)
            self._front(connected)
        else:
            self._replace(connected)

    def _look(self, connected: Connected) -> None:
        """Take the profile's own lock, close what died, and see which slot serves."""
        whole, profile = self.whole, self.whole.wanted.profile
        run = whole.run_record.run
        told = connected.session.ask(
            (
                lock.take(profile.name, run, whole.options.lock_wait, whole.run_record.playbook),
                slots.ask_live(profile),
                Call(units.state, name=profile.name),
                Call(releases.ledger, profile=profile.name, last=50),
            )
        )
        taken, front, unit, entries = told
        if isinstance(taken, RemoteError):
            raise lock.held(whole.record.host, taken) if taken.kind == "locked" else taken
        self.live, self.listens = slots.live(front), slots.listens(front)
        if not isinstance(unit, RemoteError) and unit["state"] in ("starting", "running"):
            self.front = str(unit["release"])
        dead = recovery.find([] if isinstance(entries, RemoteError) else entries)
        if dead is not None:
            whole.record.recovered_run = dead.run
            self._note(connected, recovery.closing(dead, run, self.live))

    def _stays(self, connected: Connected, slot: Slot) -> bool:
        """Whether the live slot is to go on serving: its release is the wanted one, or what is
        wanted instead is known to fail."""
        options = self.whole.options
        if options.release:
            return options.release == CURRENT
        wanted, answers = self._answers(connected, slot)
        current = answers[RELEASES]["current"]
        if wanted_release(wanted, answers) == current:
            return not wanted.option(LaunchStep.name, ALWAYS, False)
        if not options.only_if_changed:
            return False
        beside, answers = self._answers(connected, slots.other(slot))
        digest = ledger.profile_digest(beside.profile)
        entries = answers[RELEASES]["ledger"]
        failed = ledger.failed_before(entries, wanted_release(beside, answers), digest)
        if failed is None:
            return False
        text = f"what is wanted failed in run {failed}: not tried again, nothing changed since"
        self.whole.listen(events.StepNote(self.whole.record.host, "ledger", text))
        self.whole = replace(self.whole, options=replace(options, release=CURRENT))
        return True

    def _answers(self, connected: Connected, slot: Slot) -> tuple[Deployment, Answers]:
        whole, wanted = self.whole, self._inner(slot, self.whole.record).wanted
        asked = questions(whole.steps, wanted)
        answers, _ = ask(connected, asked)
        free = whole.turns.slots
        return settle(whole.resolution, connected, whole.steps, wanted, asked, answers, free)

    def _inner(self, slot: Slot, record: HostRecord) -> Worker:
        """The run of one slot. It never rolls back to its own past: the other slot serves."""
        whole = self.whole
        profile = slots.slot_profile(whole.wanted.profile, slot)
        options = replace(whole.options, keep_failed=True, lock_wait=0.0, only_if_changed=False)
        if options.release == rollback.PREVIOUS:
            # The other slot still holds what was served before this one.
            options = replace(options, release=CURRENT)
        wanted = replace(whole.wanted, profile=profile)
        return replace(whole, wanted=wanted, record=record, options=options)

    def _replace(self, connected: Connected) -> None:
        whole, record = self.whole, self.whole.record
        slot = slots.other(self.live) if self.live else "blue"
        self._note(connected, ledger.begun(whole.run_record, record, whole.wanted.profile, slot))
        try:
            self._check_port(connected)
            self._inner(slot, record).run()
            record.previous = self.live
            if record.error is not None:
                if not whole.options.keep_failed:
                    self._retire(connected, slot, drain=False)
                record.restored = self._goes_on(connected)
                return
            self._note(connected, ledger.phase(whole.run_record, record, "switching"))
            self._turn(connected, slot)
            record.changed = True
        except DeployError as error:
            record.error = error
        except Cancelled:
            record.error = self._cut_short(connected, slot)
        finally:
            closing = outcome([record])[0]
            self._note(connected, ledger.ended(whole.run_record, record, closing))

    def _goes_on(self, connected: Connected) -> bool:
        """Whether a failure past the staging leaves the live slot serving, as a rollback would."""
        past = {s.step for s in self.whole.record.steps if s.attempted and s.status != "skipped"}
        if self.live is None or not past & registry.makers(SERVER):
            return False
        name = slots.slot_profile(self.whole.wanted.profile, self.live).name
        unit = connected.session.call(units.state, name=name)
        return bool(unit["state"] == "running" and unit["kept"])

    def _cut_short(self, connected: Connected, slot: Slot) -> Interrupted:
        profile = self.whole.wanted.profile
        with cancel.shielded():
            left = [
                f"slot {one}: {left_behind(connected.session, f'{profile.name}.{one}')}"
                for one in slots.SLOTS
            ]
            turned = slots.live(connected.session.ask((slots.ask_live(profile),))[0])
        leads = f"the front leads to slot {turned}" if turned else "no slot was turned to"
        return Interrupted(
            f"{self.whole.record.host}: interrupted while turning to slot {slot}",
            "; ".join([leads, *left]),
            f"run: deployctl up --profile {profile.name} (it ends what is left over)",
        )

    def _turn(self, connected: Connected, slot: Slot) -> None:
        profile, record = self.whole.wanted.profile, self.whole.record
        before = self.live
        began = time.monotonic()
        slots.turn(connected.session, profile, slot)
        self.live = slot
        self._front(connected)
        evidence: dict[str, Any] = {"slot": slot, "before": before}
        if before is not None:
            evidence |= self._retire(connected, before, drain=True)
        seconds = time.monotonic() - began
        record.steps.append(StepRecord("switch", "changed", seconds, evidence))

    def _front(self, connected: Connected) -> None:
        """The front runs and listens where it is wanted; a release that held the port itself makes
        way once."""
        session, profile = connected.session, self.whole.wanted.profile
        wanted = (profile.serve.host, profile.serve.port)
        if self.front == slots.FRONT and self.listens == wanted:
            return
        self._check_port(connected)
        began, before = time.monotonic(), self.front
        if self.live is not None and self.listens != wanted:
            slots.turn(session, profile, self.live)
        interrupts = self.front != "absent"
        requests = stop_unit(session, profile)["requests"]
        slots.start_front(session, profile)
        while not session.call(network.listener, port=profile.serve.port)["listening"]:
            if time.monotonic() - began > FRONT_LIMIT:
                raise HostError(
                    self.whole.record.host,
                    f"the front does not listen on port {profile.serve.port}",
                    session.call(units.log, name=profile.name, offset=-2000)["text"].strip(),
                    "free the port, or choose another serve.port",
                )
            cancel.sleep(POLL / 5)
        self.front, self.listens = slots.FRONT, wanted
        self.whole.record.changed = True
        evidence = {"before": before, "port": profile.serve.port, REQUESTS: requests}
        seconds = time.monotonic() - began
        self.whole.record.steps.append(StepRecord("front", "changed", seconds, evidence))
        if interrupts:
            self.whole.record.outages = [time.monotonic() - began]
            self.whole.record.without_service = self.whole.record.outages[0]

    def _check_port(self, connected: Connected) -> None:
        """Raise where somebody else holds the front's port, before anything makes way for it."""
        profile = self.whole.wanted.profile
        port, unit = profile.serve.port, connected.session.call(units.state, name=profile.name)
        others = strangers(connected.session.call(network.listener, port=port), unit)
        if others:
            raise HostError(
                self.whole.record.host,
                f"port {port}, the front's, is held by pid {others[0]['pid']}",
                str(others[0]["command"] or others[0]["comm"]),
                "stop that program, or choose another serve.port",
            )

    def _retire(self, connected: Connected, slot: Slot, drain: bool) -> dict[str, Any]:
        """Stop a slot's server; with `drain` once its requests have ended or their time is over."""
        profile = slots.slot_profile(self.whole.wanted.profile, slot)
        within = self.whole.wanted.profile.switch.drain if drain else 0.0
        return in_flight.stop_drained(connected.session, profile, within, self._draining)

    def _draining(self, left: int | None) -> None:
        many = "an unknown number of requests" if left is None else f"{left}"
        host, detail = self.whole.record.host, f"{many} in flight"
        self.whole.listen(events.StepProgress(host, "switch", "drain", detail, None))

    def _down(self) -> None:
        """The front first: no client is sent to a slot that ends."""
        whole = self.whole
        whole.run()
        ended = whole.record.steps
        for slot in slots.SLOTS:
            inner = HostRecord(whole.record.host)
            self._inner(slot, inner).run()
            ended += [replace(step, step=f"{slot}-{step.step}") for step in inner.steps]
            whole.record.error = whole.record.error or inner.error
            whole.record.changed = whole.record.changed or inner.changed
        whole.record.steps = ended

    def _note(self, connected: Connected, entry: dict[str, Any]) -> None:
        profile = self.whole.wanted.profile.name
        request = Call(releases.record, profile=profile, entry=entry)
        connected.session.ask([request])
