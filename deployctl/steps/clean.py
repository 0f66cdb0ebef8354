"""clean: what would stand in the new server's way is stopped, if it is ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from deployctl.steps.release import release_paths


class CleanStep(Step):
    """Our unit, and stale processes of ours, stopped; memory and port proven free."""

    name = "clean"
    phase = "switch"
    failure = NotReady

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return (
            Question("unit", "units.state", {"name": wanted.profile.name}),
            Question("gpus", "gpu.state", where="node"),
            Question("port", "network.listener", {"port": wanted.profile.serve.port}),
        )

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit = answers["unit"]
        if keeps(wanted, answers):
            return Plan("unchanged", reason="the unit runs the wanted release")
        if unit["state"] not in ("starting", "running"):
            return Plan("check", reason="no unit runs")
        stopped = Change("unit", unit["release"], None, f"pid {unit['pid']} is stopped")
        return Plan("change", (stopped,))

    def apply(self, context: Context, plan: Plan) -> None:
        context.progress("stop", f"unit {context.wanted.profile.name}")
        context.session.call(
            "units.stop",
            name=context.wanted.profile.name,
            grace=context.wanted.profile.serve.stop_grace,
        )

    def prove(self, context: Context) -> Evidence:
        serve = context.wanted.profile.serve
        listener = context.session.call("network.listener", port=serve.port)
        evidence: dict[str, Any] = {
            "holders": [],
            "stopped": [],
            "memory_before": None,
            "memory_after": None,
            "gpu": gpu_words(context.answers),
        }
        if listener["listening"]:
            who = ", ".join(f"{h['pid']} ({h['command']})" for h in listener["holders"])
            raise self.fail(
                context,
                f"port {serve.port} is still held",
                f"by {who or 'nobody visible from here'}",
                "stop it or choose another serve.port",
                evidence,
            )
        return evidence


def keeps(wanted: Deployment, answers: Answers) -> bool:
    """Whether the unit already runs what is wanted: then nothing is to be cleaned away."""
    unit = answers["unit"]
    if unit["state"] not in ("starting", "running"):
        return False
    return bool(unit["release"] == release_paths(wanted, answers).release)


def gpu_words(answers: Answers) -> str:
    """What is known of the GPUs, in a few words."""
    unknown = answers.unknown("gpus")
    if unknown:
        return f"unknown: {unknown.reason}"
    state = answers["gpus"]
    if not state["present"]:
        return f"absent: {state['reason']}"
    return ", ".join(f"{gpu['index']}: {gpu['name']}" for gpu in state["gpus"])
