"""The end of a group's part in a roll: it stays until the others are done, and goes back to its
previous release where another one fails and the profile wants that."""

from __future__ import annotations

from dataclasses import replace

from deployctl.cancel import Cancelled
from deployctl.engine.ledger.record import RunRecord
from deployctl.engine.run import surplus, switch
from deployctl.engine.run.execute import Work
from deployctl.engine.run.plan import HostPlan
from deployctl.engine.run.replica import Replica
from deployctl.engine.run.turns import Turns
from deployctl.errors import HostError
from deployctl.hosts.session import known
from deployctl.steps.member import Peers


def stay(turns: Turns, host: str) -> str | None:
    """Hold the lock until the other groups are done; the host that failed, if any."""
    try:
        return turns.passed(host)
    except Cancelled:
        return None  # its own part is done, and stays so


def settle(replica: Replica | None, work: Work, plan: HostPlan) -> None:
    """Have the router send requests here where what is current serves, and else not; end replicas
    that the profile does not have any more."""
    if not any(p.step.phase == "switch" for p in plan.steps):
        return
    if replica is not None:
        replica.settle(work)
    if work.record.error is None and not work.record.held_back:
        surplus.end(work, replica.routing if replica else None)


def go_back(
    run: RunRecord,
    work: Work,
    plan: HostPlan,
    turns: Turns,
    replica: Replica | None,
    peers: Peers,
) -> None:
    """Wait for the rest of the roll; back to the previous release, where another group fails with
    the new one and the profile wants that."""
    record, before = work.record, plan.current
    switched = record.changed and plan.switches
    if record.error is not None or record.held_back or not switched:
        return
    failed = stay(turns, record.host)
    if failed is None or turns.on_failure != "back":
        return
    if before in (None, work.release.release) or not switch.manifest_of(work, str(before)):
        return
    turns.back(record.host)
    if replica is not None:
        replica.leave(work)
    switch.restore(run, work, plan, f"{failed} failed", peers)
    if record.restored:
        pointed = replace(work.release, release=str(before))
        known(work.connected.session.ask((switch.point(pointed),))[0])
    what = f"release {work.release.release} was taken back, since {failed} failed with it"
    record.error = HostError(record.host, what, "", "see why that host failed")
    settle(replica, work, plan)
