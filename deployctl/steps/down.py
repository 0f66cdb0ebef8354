"""Stop the profile's server and prove that all of it is gone: processes and port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.errors import NotReady
from deployctl.hosts.operations import files, network, releases, units
from deployctl.hosts.session import Call
from deployctl.steps import facts
from deployctl.steps.facts import UNIT
from deployctl.steps.interface import (
    STOPPED,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
)
from deployctl.steps.servers import left_slots
from deployctl.steps.servers.plain_server import left_over
from deployctl.steps.servers.stopping import REQUESTS, in_words, stop_named, together

SERVING = ("starting", "running")
PROFILES = Key[list[str]]("down.profiles")


class DownStep(Step):
    """The end of serving; releases stay on the host."""

    name = "down"
    phase = "switch"
    failure = NotReady
    needs_release = False
    produces = frozenset({STOPPED})
    interruptible = False
    idle = "nothing of the profile runs"
    done = "the server was stopped, nothing serves"

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        unit = facts.unit(wanted)
        return [unit, Question(PROFILES, Call(releases.profiles)), *left_slots.questions(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers[UNIT]
        slots = left_slots.left(wanted, answers)
        changes = [Change(name, f"pid {one['pid']}", "stopped") for name, one in slots.items()]
        changes += [
            Change(name, "left by a run that died", "removed") for name in _plain(wanted, answers)
        ]
        if unit["state"] in SERVING or unit["members"]:
            changes.insert(0, Change("server", f"pid {unit['pid']}", "stopped"))
        if not changes:
            evidence = {"state": unit["state"], "members": []}
            return Plan("unchanged", reason="nothing runs", evidence=evidence)
        return Plan("change", tuple(changes))

    def apply(self, context: Context, plan: Plan) -> None:
        profile = context.wanted.profile
        grace = profile.serve.stop_grace
        stops = [stop_named(context.session, name, grace) for name in _names(context)]
        context.evidence[self.name] = {REQUESTS: together(stops)}
        for name in _plain(context.wanted, context.answers):
            context.session.call(files.remove_tree, path=f"@/profiles/{name}")

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        ended = [context.session.call(units.state, name=name) for name in _names(context)]
        unit, members = ended[0], [one for found in ended for one in found["members"]]
        port = context.session.call(network.listener, port=profile.serve.port)
        before = context.evidence.get(self.name, {})
        evidence = {**before, "state": unit["state"], "members": members, "port": port}
        if members or any(found["state"] in SERVING for found in ended):
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


def _names(context: Context) -> list[str]:
    """The units to end: the profile's own, what it left in slots, and plain servers."""
    wanted, answers = context.wanted, context.answers
    slots, plain = left_slots.left(wanted, answers), _plain(wanted, answers)
    return [wanted.profile.name, *slots, *plain]


def _plain(wanted: Deployment, answers: Answers) -> list[str]:
    names = answers.get(PROFILES)
    return left_over(wanted.profile.name, names or ())
