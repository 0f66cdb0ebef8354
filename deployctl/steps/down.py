"""Stop the profile's server and prove that all of it is gone: processes and port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.answers import UnitState
from deployctl.errors import NotReady
from deployctl.hosts.operations import files, network, units
from deployctl.steps import facts, replicas
from deployctl.steps.facts import UNIT
from deployctl.steps.identity import FRONT, MAIN, PROXY, ROUTER, full_name, unit_home
from deployctl.steps.interface import (
    STOPPED,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.servers import siblings
from deployctl.steps.servers.plain_server import left_over
from deployctl.steps.servers.stopping import REQUESTS, in_words, stop_unit, together


class DownStep(Step):
    """The end of serving; releases stay on the host."""

    name = "down"
    phase = "switch"
    failure = NotReady
    needs_release = False
    produces = frozenset({STOPPED})
    head_first = True
    interruptible = False
    idle = "nothing of the profile runs"
    done = "the server was stopped, nothing serves"

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return [facts.unit(wanted), siblings.question(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        found = _own(wanted, answers[siblings.UNITS])
        changes = [
            Change(_called(wanted, unit), f"pid {found[unit]['pid']}", "stopped")
            for unit in _running(found)
        ]
        changes += [
            Change(full_name(wanted.profile.name, unit), "left by a run that died", "removed")
            for unit in left_over(found)
        ]
        if not changes:
            evidence = {"state": answers[UNIT]["state"], "members": []}
            return Plan("unchanged", reason="nothing runs", evidence=evidence)
        return Plan("change", tuple(changes))

    def apply(self, context: Context, plan: Plan) -> None:
        found = _own(context.wanted, context.answers[siblings.UNITS])
        plain = left_over(found)
        # The front goes first: no client is led to what ends.
        ending = [unit for unit in _running(found) if unit not in plain]
        stops = [
            stop_unit(context.session, siblings.of_unit(context.wanted, unit))
            for unit in (*ending, *plain)
        ]
        context.evidence[self.name] = {REQUESTS: together(stops)}
        for unit in plain:
            home = unit_home(siblings.of_unit(context.wanted, unit).unit_id)
            context.session.call(files.remove_tree, path=home)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        listed = context.session.call(units.listing, profile=profile.name)
        found = _own(context.wanted, listed)
        members = [one for unit in found.values() for one in unit["members"]]
        port = context.session.call(network.listener, port=profile.serve.port)
        unit = found.get(context.wanted.unit) or siblings.ABSENT
        before = context.evidence.get(self.name, {})
        evidence = {**before, "state": unit["state"], "members": members, "port": port}
        if _running(found):
            pids = ", ".join(str(member["pid"]) for member in members)
            raise self.fail(
                context,
                f"processes of the server are left: {pids or 'unknown'}",
                "they survived SIGTERM and SIGKILL",
                "look at them with: ps -o pid,stat,wchan:32,cmd -p PID",
                evidence,
            )
        return evidence

    def sentence(self, ended: Mapping[str, Any]) -> str:
        return in_words(ended["evidence"])


def _own(wanted: Deployment, found: dict[str, UnitState]) -> dict[str, UnitState]:
    """The units that end: where several replicas are on a host, those of one."""
    return {unit: found[unit] for unit in replicas.own_units(wanted, found)}


def _running(found: Mapping[str, UnitState]) -> list[str]:
    """The units of which anything runs, what leads clients to the others first."""
    first = (FRONT, PROXY, ROUTER, MAIN)
    order = sorted(found, key=lambda unit: first.index(unit) if unit in first else len(first))
    return [unit for unit in order if siblings.runs(found[unit])]


def _called(wanted: Deployment, unit: str) -> str:
    return "server" if unit == MAIN else full_name(wanted.profile.name, unit)
