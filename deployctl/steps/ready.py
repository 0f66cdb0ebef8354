"""ready: the process that answers is the process that was started, and it generates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.answers import HttpAnswer, UnitState
from deployctl.errors import NotReady
from deployctl.hosts.operations import network
from deployctl.hosts.session import Call
from deployctl.steps import facts
from deployctl.steps.facts import PORT, UNIT
from deployctl.steps.interface import (
    SERVER,
    SERVICE,
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
from deployctl.steps.release import release_paths
from deployctl.steps.servers import life
from deployctl.steps.servers.process import identity, strangers, was_proven
from deployctl.steps.servers.readiness import Readiness
from deployctl.steps.servers.rendezvous import Following
from deployctl.steps.servers.stopping import reachable
from deployctl.vllm import json_text

HEALTH = Key[HttpAnswer]("health")


class ReadyStep(Step):
    """Follows a start to its end: a completion from the process that was started."""

    name = "ready"
    phase = "switch"
    failure = NotReady
    produces = frozenset({SERVICE})
    uses = (SERVER,)
    runs_release = True
    compared = ("seconds",)

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        if wanted.role == "worker":
            return [facts.unit(wanted)]
        serve = wanted.profile.serve
        url = f"http://{reachable(serve.host)}:{serve.port}/v1/models"
        return [
            facts.unit(wanted),
            facts.port(wanted),
            Question(HEALTH, Call(network.http, method="GET", url=url)),
            *life.questions(wanted.profile),
        ]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        unit, release = answers[UNIT], release_paths(wanted, answers).release
        if unit["state"] != "running" or unit["release"] != release:
            return Plan("change", (Change("readiness", unit["state"], "ready"),))
        if wanted.role == "worker":
            return _rank(unit)
        port, health = answers[PORT], answers[HEALTH]
        if strangers(port, unit) or not port["holders"] or not unit["kept"]:
            return Plan("check", reason="it runs and was not proven")
        if not was_proven(unit):
            return Plan("check", reason="the running process is not the one that was proven")
        names = served_names(health)
        # With an API key, 401 is what a server that lives answers to a question without one.
        guarded = wanted.profile.serve.api_key is not None and health["status"] == 401
        if wanted.profile.model.served_name not in names and not guarded:
            said = names or health["error"] or f"HTTP {health['status']}"
            return Plan("check", reason=f"/v1/models says {said}")
        generates, why = life.generates(answers)
        if generates is False:
            return Plan("check", reason=f"it does not generate: {why}")
        unknown = "" if generates else f"whether it generates is unknown: {why}"
        if unknown and not life.refuses(answers):
            return Plan("check", reason=unknown)
        evidence = {
            **identity(unit),
            "started": unit["started"],
            "release": release,
            "restarts": unit["restarts"],
        }
        return Plan("unchanged", reason=unknown, evidence=evidence)

    def prove(self, context: Context) -> Evidence:
        worker = context.wanted.role == "worker"
        readiness = Following(self, context) if worker else Readiness(self, context)
        try:
            return readiness.prove()
        except NotReady as failure:
            failure.evidence["stopped"] = readiness.abandon()
            raise

    def sentence(self, ended: Mapping[str, Any]) -> str:
        pid = ended["evidence"].get("pid")
        return f"pid {pid}" if pid else ""


def _rank(unit: UnitState) -> Plan:
    """Of a rank without an API: its process is the one that was there when the head was proven."""
    if not was_proven(unit):
        return Plan("check", reason="the running process is not the one that was proven")
    evidence = {**identity(unit), "started": unit["started"], "release": unit["release"]}
    return Plan("unchanged", evidence=evidence)


def served_names(answer: HttpAnswer) -> list[str]:
    """The names in an answer of /v1/models; empty where it is another answer."""
    try:
        return [str(one["id"]) for one in json_text.parsed(answer["body"])["data"]]
    except (ValueError, KeyError, TypeError):
        return []
