"""What a placement tries once all is planned: its steps, then a commit or a rollback."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from deployctl import cancel
from deployctl.cancel import Cancelled
from deployctl.engine.run import (
    events,
    failed_release,
    interruption,
    recovery,
    surplus,
    switch,
    together,
)
from deployctl.engine.run.asking import Asking
from deployctl.engine.run.commit import commit
from deployctl.engine.run.execute import Work, run_step
from deployctl.engine.run.hooks import Hooks
from deployctl.engine.run.members import BACK, TRY
from deployctl.engine.run.plan import HostPlan
from deployctl.engine.run.replica import Replica
from deployctl.engine.run.turns import HeldBack
from deployctl.errors import (
    ConnectionLost,
    DeployError,
    HostError,
    Interrupted,
    NotReady,
    RemoteError,
)
from deployctl.steps.interface import SERVER
from deployctl.steps.member import PeerFailed
from deployctl.steps.servers.stopping import stop_unit


@dataclass
class Attempting(Asking):
    """Carries a plan out, and goes back where that fails."""

    hooks: Hooks
    begun: bool = False
    """Whether the ledger has this run."""
    replica: Replica | None = None
    """What serves here, as one of several before a router."""

    def _attempt(self, work: Work, plan: HostPlan, dead: recovery.Dead | None) -> None:
        back = dead if self._died_going_back(dead, work, plan) else None
        if self.members.any(self.record.host, "goes back", back is not None):
            failure: DeployError | None = _unfinished(self.record.host, back)
        else:
            try:
                failure = self._carry_out_steps(work, plan)
            except HeldBack as error:
                self.record.held_back = str(error)
                return
        if failure is None:
            with cancel.shielded():
                try:
                    commit(self.run_record, work, plan)
                except PeerFailed as error:
                    self.record.error = together.lost(self.record.host, "commit", error)
                    return
            if work.beside and self.pair is not None and plan.has(SERVER):
                self.pair.hand_over(self.run_record, work)
            return
        self.record.error = failure
        self.members.failed(self.record.host, TRY, failure.what)
        failed_release.keep(self.run_record, work, failure)
        if work.beside and self.pair is not None:
            keep = self.options.keep_failed
            self.pair.give_up(self.run_record, work, plan, failure, keep)
            return
        astray = dead is not None and dead.phase != "staging"
        if not self._goes_back(work, plan, switch.may_restore(work, plan, failure, astray)):
            self._stop_half_a_group(work, plan, failure)
            self.record.error = interruption.told(work, plan, failure)
            if plan.has(SERVER):
                self.record.still_serving = interruption.still_serving(work)
            return
        try:
            peers = self.members.at(self.record.host, BACK)
            switch.restore(self.run_record, work, plan, failure.what, peers)
        except Cancelled:
            raise interruption.interrupted_twice(work, plan) from None

    def _stop_half_a_group(self, work: Work, plan: HostPlan, failure: DeployError) -> None:
        """End what a first deployment that was interrupted has begun of a group: its ranks would
        wait for each other, or serve, and no run would watch them. One server alone goes on."""
        begun = switch.was_touched(work, plan) and plan.current is None
        if not begun or self.members.alone or self.options.keep_failed:
            return
        if isinstance(failure, Interrupted):
            with cancel.shielded(), suppress(ConnectionLost, RemoteError):
                stop_unit(work.connected.session, work.wanted)

    @staticmethod
    def _died_going_back(dead: recovery.Dead | None, work: Work, plan: HostPlan) -> bool:
        return dead is not None and recovery.must_go_back(dead, work.release.release, plan.current)

    def _goes_back(self, work: Work, plan: HostPlan, restores: bool) -> bool:
        """Whether the release of before is brought back; of a group on all hosts, or on none. A
        rank that the others have left serves nothing, and is stopped."""
        restores = restores and not self.options.keep_failed
        able = plan.current is not None and bool(switch.manifest_of(work, plan.current))
        try:
            return together.goes_back(self.members, self.record.host, restores, able)
        except PeerFailed as error:
            text = f"{error}: the group cannot go back"
            self.listen(events.StepNote(self.record.host, "restore", text))
            if switch.was_touched(work, plan) and not self.options.keep_failed:
                with suppress(ConnectionLost, RemoteError):
                    stop_unit(work.connected.session, work.wanted)
            return False

    def _carry_out_steps(self, work: Work, plan: HostPlan) -> DeployError | None:
        if plan.impossible is not None:
            return run_step(work, plan.impossible).error
        try:
            if work.beside and self.pair is not None and plan.has(SERVER):
                self.pair.front.check_port()
            return switch.carry_out(self.run_record, work, plan, lambda: self._turn(work))
        except DeployError as error:
            # Of no step: the ledger that cannot be written, say. It leads back like any failure.
            return error
        except Cancelled:
            at = f" in {self.record.steps[-1].step}" if self.record.steps else ""
            return Interrupted(
                f"{self.record.host}: interrupted{at}",
                next=interruption.goes_on(work),
            )

    def _turn(self, work: Work) -> None:
        """Everything is staged: wait for the wave in which this group switches and for its other
        ranks, and send it no further requests."""
        self.turns.switch(self.record.host)
        try:
            self.members.at(self.record.host).meet("staged")
        except PeerFailed as error:
            raise HeldBack(str(error)) from error
        surplus.end(work, self.replica.routing if self.replica else None)
        if self.replica is not None:
            self.replica.leave(work)


def _unfinished(host: str, dead: recovery.Dead | None) -> DeployError:
    """Why a run goes back before it tries anything: one that died had begun to."""
    if dead is None:
        return NotReady(host, "restore", "another rank has a rollback to finish")
    return HostError(
        host,
        f"release {dead.release} failed, and {recovery.sentence(dead)}",
        dead.why,
        "its rollback was finished; run again to retry that release",
    )
