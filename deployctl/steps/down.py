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

SERVING = ("starting", "running")


class DownStep(Step):
    """The end of serving; releases stay on the host."""

    name = "down"
    phase = "switch"
    failure = NotReady
    needs_release = False

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return [Question("unit", "units.state", {"name": wanted.profile.name})]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers["unit"]
        if unit["state"] not in SERVING and not unit.get("members"):
            evidence = {"state": unit["state"], "members": []}
            return Plan("unchanged", reason="nothing runs", evidence=evidence)
        return Plan("change", (Change("server", f"pid {unit.get('pid')}", "stopped"),))

    def apply(self, context: Context, plan: Plan) -> None:
        profile = context.wanted.profile
        context.session.call("units.stop", name=profile.name, grace=profile.serve.stop_grace)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        unit = context.session.call("units.state", name=profile.name)
        port = context.session.call("network.listener", port=profile.serve.port)
        evidence = {"state": unit["state"], "members": unit.get("members", []), "port": port}
        if unit["state"] in SERVING or unit.get("members"):
            pids = ", ".join(str(member["pid"]) for member in unit.get("members", []))
            raise self.fail(
                context,
                f"processes of the server are left: {pids or 'unknown'}",
                "they survived SIGTERM and SIGKILL",
                "look at them with: ps -o pid,stat,wchan:32,cmd -p PID",
                evidence,
            )
        return evidence
