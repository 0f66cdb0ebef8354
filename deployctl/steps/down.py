"""Stop the profile's server and prove that all of it is gone: processes and port."""

from __future__ import annotations

from collections.abc import Sequence

from deployctl.errors import NotReady
from deployctl.steps.interface import (
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.servers import left_slots

SERVING = ("starting", "running")


class DownStep(Step):
    """The end of serving; releases stay on the host."""

    name = "down"
    phase = "switch"
    failure = NotReady
    needs_release = False

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        unit = Question("unit", "units.state", {"name": wanted.profile.name})
        return [unit, *left_slots.questions(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers["unit"]
        slots = left_slots.left(wanted, answers)
        changes = [Change(name, f"pid {one.get('pid')}", "stopped") for name, one in slots.items()]
        if unit["state"] in SERVING or unit.get("members"):
            changes.insert(0, Change("server", f"pid {unit.get('pid')}", "stopped"))
        if not changes:
            evidence = {"state": unit["state"], "members": []}
            return Plan("unchanged", reason="nothing runs", evidence=evidence)
        return Plan("change", tuple(changes))

    def apply(self, context: Context, plan: Plan) -> None:
        profile = context.wanted.profile
        for name in _names(context):
            context.session.call("units.stop", name=name, grace=profile.serve.stop_grace)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        units = [context.session.call("units.state", name=name) for name in _names(context)]
        unit, members = units[0], [one for found in units for one in found.get("members", [])]
        port = context.session.call("network.listener", port=profile.serve.port)
        evidence = {"state": unit["state"], "members": members, "port": port}
        if members or any(found["state"] in SERVING for found in units):
            pids = ", ".join(str(member["pid"]) for member in members)
            raise self.fail(
                context,
                f"processes of the server are left: {pids or 'unknown'}",
                "they survived SIGTERM and SIGKILL",
                "look at them with: ps -o pid,stat,wchan:32,cmd -p PID",
                evidence,
            )
        return evidence


def _names(context: Context) -> list[str]:
    """The units to end: the profile's own, and what it left in slots."""
    return [context.wanted.profile.name, *left_slots.left(context.wanted, context.answers)]
