"""A run: a worker for every host of a profile, all at once, and the outcome of it all."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from deployctl import bugs
from deployctl.cancel import Cancelled, Token, watching
from deployctl.config.host import HostSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.config.replicas import firsts
from deployctl.engine.connections.connect import Connected, ask
from deployctl.engine.connections.fan_out import fan_out
from deployctl.engine.connections.pool import Job, Slots
from deployctl.engine.ledger.record import HostRecord, RunRecord, outcome
from deployctl.engine.run import events, front, next_steps, resting
from deployctl.engine.run.hooks import Hooks
from deployctl.engine.run.members import Members
from deployctl.engine.run.options import Options
from deployctl.engine.run.placement import Group, groups, placements
from deployctl.engine.run.plan import HostPlan, concerned, make, questions, select, stays
from deployctl.engine.run.replica import Replica
from deployctl.engine.run.resolve import Resolution, settle
from deployctl.engine.run.routing import Routing
from deployctl.engine.run.signals import Signals
from deployctl.engine.run.together import own_steps
from deployctl.engine.run.turns import HeldBack, Turns
from deployctl.engine.run.worker import Worker
from deployctl.engine.shipping.meeting import Meeting
from deployctl.engine.strategies.recreate import Recreate
from deployctl.engine.strategies.registry import strategy
from deployctl.errors import DeployError, Interrupted, LockHeld, UsageError
from deployctl.hosts.operations import units
from deployctl.steps import registry, replicas
from deployctl.steps.identity import MAIN, replica_unit
from deployctl.steps.interface import STOPPED, Answers, Deployment, Step
from deployctl.steps.servers import siblings
from deployctl.steps.servers.ranks import member

HEARS = 0.05
"""Seconds after which a signal is heard for certain."""
LEAVE = 3
"""Interrupts after which no worker is waited for."""


def new_run(began: datetime) -> str:
    """A run's id: sortable by time, to the microsecond; unique enough for many controllers."""
    return f"{began:%Y%m%dT%H%M%SZ}-{began.microsecond:05x}{secrets.token_hex(2)}"


def deployments(profile: Profile, playbook: Playbook, options: Options) -> list[Deployment]:
    """What is wanted on each host."""
    merged = {item.step: {**item.options} for item in playbook.steps}
    for name, given in options.steps.items():
        merged[name] = {**merged.get(name, {}), **given}
    return [
        replicas.placed(
            profile,
            host,
            options=merged,
            skip=options.skip,
            check_gates=options.check_gates,
            member=member(profile, host.name),
        )
        for host in profile.hosts
    ]


def steps_of(playbook: Playbook) -> list[Step]:
    """The playbook's steps, in order."""
    return select([item.step for item in playbook.steps], registry.steps())


def run(
    profile: Profile,
    playbook: Playbook,
    options: Options,
    listen: events.Listener = events.nobody,
) -> RunRecord:
    """Do what the playbook says on every host of the profile; failures are in the record."""
    refuse_part(profile, playbook)
    started = datetime.now(UTC)
    names = tuple(host.name for host in profile.hosts)
    hosts = [HostRecord(host.name, replica_unit(host.replica)) for host in profile.hosts]
    record = RunRecord(new_run(started), profile.name, playbook.name, started, hosts)
    began = time.monotonic()
    listen = _one_at_a_time(listen)
    listen(events.RunStarted(record.run, profile.name, playbook.name, names))
    steps, hooks = steps_of(playbook), Hooks.of(playbook, record, options.render)
    if not options.release and playbook.release != "wanted":
        options = replace(options, release=playbook.release)
    token = Token()
    placed = groups(placements(profile))
    slots_free = Slots(max(options.parallel, *(len(group.hosts) for group in placed)))
    how = Recreate() if _stops(steps) else strategy(profile)
    turns = Turns(how, placed, slots_free, options.fail_fast, profile.roll)
    routing = None if _stops(steps) and _with_router(profile) else Routing.of(profile)
    meeting = Meeting(profile, slots_free)
    resolution = Resolution(firsts(profile.hosts))
    ranks = members_of(placed, steps, slots_free)
    workers = [
        Worker(
            record,
            host,
            wanted,
            own_steps(steps, wanted),
            options,
            listen,
            resolution,
            turns,
            meeting,
            ranks[host.host],
            hooks,
        )
        for wanted, host in zip(deployments(profile, playbook, options), hosts, strict=True)
    ]
    if routing is not None:
        for worker in workers:
            if worker.wanted.role != "worker":
                worker.replica = Replica(routing, profile, last=_stops(steps))
    with Signals(token), closing(routing) if routing else nullcontext():
        _carry_out(workers, token)
    for host in hosts:
        host.wave = turns.number(host.host)
    record.outcome, record.exit_code = outcome(record.hosts)
    record.seconds = time.monotonic() - began
    listen(events.RunEnded(record))
    return record


def members_of(placed: Sequence[Group], steps: Sequence[Step], slots: Slots) -> dict[str, Members]:
    """The group of each host, as its ranks meet; to stop, none waits for another."""
    found: dict[str, Members] = {}
    for group in placed:
        whole = Members(group.hosts, slots)
        found |= {host: Members((host,), slots) if _stops(steps) else whole for host in group.hosts}
    return found


def _stops(steps: Sequence[Step]) -> bool:
    """Whether a playbook ends what serves: on all hosts at once, whatever the strategy."""
    return any(STOPPED in step.produces for step in steps)


def _with_router(profile: Profile) -> bool:
    """Whether the host of the profile's router is among those of a run."""
    return profile.router_host.name in {host.name for host in profile.hosts}


def refuse_part(profile: Profile, playbook: Playbook) -> None:
    """Raise `UsageError` for some ranks of a group without the others; any may be stopped."""
    whole = {one.name for host in profile.hosts for one in profile.grouped(host.name)}
    left_out = sorted(whole - {host.name for host in profile.hosts})
    if profile.group is None or not left_out or _stops(steps_of(playbook)):
        return
    raise UsageError(
        f"profile {profile.name} has a model over several hosts, and {', '.join(left_out)} is left"
        " out",
        next="leave out --host and --limit",
    )


def _one_at_a_time(listen: events.Listener) -> events.Listener:
    """A listener that hears the events of all hosts one after the other."""
    speaking = threading.Lock()

    def hear(event: events.Event) -> None:
        with speaking:
            listen(event)

    return hear


def _carry_out(workers: Sequence[Worker], token: Token) -> None:
    """Every worker in a thread of its own, until all have ended, or an interrupt ends the wait."""
    over = threading.Event()
    left = threading.Semaphore(0)

    def one(worker: Worker) -> None:
        try:
            with worker.turns.slots.taken(), watching(token):
                _host(worker)
        finally:
            left.release()

    def wait_for_all() -> None:
        for _ in workers:
            left.acquire()
        over.set()

    jobs = [Job(worker.record.host, lambda worker=worker: one(worker)) for worker in workers]  # type: ignore[misc]
    for job in [*jobs, Job("run", wait_for_all)]:
        job.start()

    def leave() -> None:
        if token.count >= LEAVE:
            over.set()

    with token.waking(leave, LEAVE):
        # Again and again: where another thread is given a signal, this one alone can hear it.
        while not over.wait(HEARS):
            pass
    for worker in workers:
        if not worker.record.ended:
            worker.record.error = _interrupted(worker.record, "it did not end in time")


def _host(worker: Worker) -> None:
    """One host's part; its failure, or the interrupt that ended it, is in its record."""
    record, profile = worker.record, worker.run_record.profile
    try:
        worker.turns.begin()
        worker.listen(events.Connecting(record.host))
        worker.run()
    except HeldBack as error:
        record.held_back = str(error)
    except DeployError as error:
        record.error = error
    except Cancelled:
        # While it was being reached, or again while the rest was reported.
        record.error = record.error or _interrupted(record, "the remaining state was not checked")
    except Exception as error:
        record.error = bugs.internal(record.host, error)
    worker.resolution.asked(record.host)
    worker.meeting.left(record.host, record.error)
    gone = record.error.what if record.error else record.held_back or "it has ended"
    worker.members.left(record.host, gone)
    broken = not isinstance(record.error, LockHeld | Interrupted)
    worker.turns.ended(record.host, record.error is not None, broken)
    next_steps.complete(record, profile)
    record.ended = True
    worker.listen(events.HostEnded(record))


def _interrupted(record: HostRecord, left: str) -> Interrupted:
    if not record.steps:
        return Interrupted(f"{record.host}: interrupted", "nothing was touched")
    return Interrupted(f"{record.host}: interrupted", left, "see what serves: deployctl status")


def survey(profile: Profile, playbook: Playbook, options: Options) -> list[dict[str, Any]]:
    """Plan without doing: one round trip a host, no lock, nothing touched. Each `host` has its
    `plan`, a `HostPlan`, or an `error` as `fan_out` tells it."""
    refuse_part(profile, playbook)
    steps = steps_of(playbook)
    wanted = {one.host.name: one for one in deployments(profile, playbook, options)}
    resolution = Resolution(firsts(profile.hosts))

    free = Slots(options.parallel)
    meeting = Meeting(profile, free)

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        return {"plan": _plan(connected, steps, wanted[host.name], resolution, meeting, free)}

    def done(host: str) -> None:
        resolution.asked(host)
        meeting.left(host)

    found = fan_out(profile, look, slots=free, done=done)
    for host in found:
        if "plan" in host:
            # Who has something already did not wait to learn who lacks it.
            host["plan"] = replace(host["plan"], deliveries=meeting.deliveries(host["host"]))
    return found


def _plan(
    connected: Connected,
    steps: Sequence[Step],
    wanted: Deployment,
    resolution: Resolution,
    meeting: Meeting,
    free: Slots,
) -> HostPlan:
    """The plan on one host, for the unit that would be worked in."""

    def planned(wanted: Deployment) -> tuple[HostPlan, Deployment, Answers]:
        asked = questions(steps, wanted)
        answers, _ = ask(connected, asked)
        wanted, answers = settle(resolution, connected, steps, wanted, asked, answers, free)
        wanted, answers = meeting.settle(connected, steps, wanted, answers)
        plan = make(concerned(own_steps(steps, wanted), wanted, answers), wanted, answers)
        return plan, wanted, answers

    how, serves = strategy(wanted.profile), front.serving(connected.session, wanted)
    if not how.beside:
        return planned(wanted)[0]
    live = None if serves.unit == MAIN else serves.unit
    if live is not None:
        plan, _, _ = planned(serves)
        if stays(steps, wanted, plan.current, plan.release):
            return plan
    beside = siblings.of_unit(wanted, how.handover(live, stays=False).unit)
    if live is None or plan.current is None or not how.sleeps:
        return planned(beside)[0]
    state = connected.session.call(units.state, **serves.unit_id)
    rests = resting.resting_processes(wanted.profile, state)
    made, beside, answers = planned(replace(beside, resting=rests))
    why = resting.why_not(connected.session, serves.unit_id, beside, answers)
    return replace(made, handover=resting.how(plan.current, why))
