"""A run: every host of a profile in turn, and the outcome of it all."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.config.playbook import Playbook
from deployctl.config.profile import Profile
from deployctl.engine.run import events, next_steps
from deployctl.engine.run.connect import Connected
from deployctl.engine.run.fan_out import each_host
from deployctl.engine.run.hooks import Hooks
from deployctl.engine.run.host_run import HostRun
from deployctl.engine.run.interrupts import Interrupts
from deployctl.engine.run.options import Options
from deployctl.engine.run.plan import HostPlan, ask, make, questions, select
from deployctl.engine.run.record import HostRecord, RunRecord, outcome
from deployctl.engine.strategies import slots
from deployctl.engine.strategies.blue_green import BlueGreenRun
from deployctl.errors import DeployError, Interrupted
from deployctl.steps import registry
from deployctl.steps.interface import Deployment, Step


def new_run(began: datetime) -> str:
    """A run's id: sortable by time, to the microsecond; unique enough for many controllers."""
    return f"{began:%Y%m%dT%H%M%SZ}-{began.microsecond:05x}{secrets.token_hex(2)}"


def deployments(profile: Profile, playbook: Playbook, options: Options) -> list[Deployment]:
    """What is wanted on each host."""
    merged = {item.step: {**item.options} for item in playbook.steps}
    for name, given in options.steps.items():
        merged[name] = {**merged.get(name, {}), **given}
    return [
        Deployment(profile, host, merged, options.skip, options.check_gates)
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
    started = datetime.now(UTC)
    record = RunRecord(new_run(started), profile.name, playbook.name, started)
    began = time.monotonic()
    names = tuple(host.name for host in profile.hosts)
    listen(events.RunStarted(record.run, profile.name, playbook.name, names))
    steps, hooks = steps_of(playbook), Hooks.of(playbook, record, options.render)
    if not options.release and playbook.release != "wanted":
        options = replace(options, release=playbook.release)
    with Interrupts() as interrupts:
        for wanted in deployments(profile, playbook, options):
            host = HostRecord(wanted.host.name)
            record.hosts.append(host)
            part = HostRun(record, host, wanted, steps, options, listen, interrupts, hooks)
            _host(BlueGreenRun(part) if slots.blue_green(profile) else part, host)
            next_steps.complete(host, profile.name)
            listen(events.HostEnded(host))
            if isinstance(host.error, Interrupted):
                break
    record.outcome, record.exit_code = outcome(record.hosts)
    record.seconds = time.monotonic() - began
    listen(events.RunEnded(record))
    return record


def _host(part: HostRun | BlueGreenRun, record: HostRecord) -> None:
    """One host's part; its failure, or the interrupt that ended it, is in its record."""
    try:
        part.run()
    except DeployError as error:
        record.error = error
    except KeyboardInterrupt:
        # While it was being reached, or once more while it was said what is left.
        left = "what is left was not asked" if record.steps else "nothing was touched"
        todo = "see what serves: deployctl status" if record.steps else ""
        record.error = record.error or Interrupted(f"{record.host}: interrupted", left, todo)


def survey(profile: Profile, playbook: Playbook, options: Options) -> list[dict[str, Any]]:
    """Plan without doing: one round trip a host, no lock, nothing touched. Each `host` has its
    `plan`, a `HostPlan`, or an `error` as `each_host` tells it."""
    steps = steps_of(playbook)
    wanted = {one.host.name: one for one in deployments(profile, playbook, options)}

    def look(host: HostSettings, connected: Connected) -> dict[str, Any]:
        return {"plan": _plan(connected, steps, wanted[host.name])}

    return each_host(profile, look)


def _plan(connected: Connected, steps: Sequence[Step], wanted: Deployment) -> HostPlan:
    """The plan on one host; for a profile with slots that of the slot which would be worked in."""
    profile = slots.serving(connected.session, wanted.profile)
    answers, _ = ask(connected, questions(steps, replace(wanted, profile=profile)))
    plan = make(steps, replace(wanted, profile=profile), answers)
    if not slots.blue_green(wanted.profile) or plan.idle:
        return plan
    slot = slots.idle(wanted.profile, profile)
    beside = replace(wanted, profile=slots.slot_profile(wanted.profile, slot))
    answers, _ = ask(connected, questions(steps, beside))
    return make(steps, beside, answers)
