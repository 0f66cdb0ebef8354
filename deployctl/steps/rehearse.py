"""rehearse: the built vLLM itself parses the command line, beside what serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl import __version__
from deployctl.agent.wire.jobs import JobState
from deployctl.config.base import Settings
from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files, release_status
from deployctl.hosts.session import Call
from deployctl.steps import facts, job
from deployctl.steps.builds import built
from deployctl.steps.clean import look
from deployctl.steps.facts import DRAFTER, GPUS, UNIT
from deployctl.steps.gpus import gpu_snapshot, profile_gpus
from deployctl.steps.identity import digest
from deployctl.steps.interface import (
    ANSWERING,
    RELEASE_PARTS,
    Answers,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
)
from deployctl.steps.models import sources
from deployctl.steps.release import release_paths
from deployctl.steps.servers.process import RUNNING
from deployctl.steps.servers.rendering import render, secret_values
from deployctl.steps.servers.serving import held, objections, serve_settings
from deployctl.vllm.logs.server import explain
from deployctl.vllm.serving import rehearsal
from deployctl.vllm.serving.command import command, environment
from deployctl.vllm.serving.knowledge import Knowledge

REHEARSED = Key[dict[str, dict[str, Any]]]("rehearsed")
ALWAYS = "always"
STALL = 180.0
LIMIT = 1800.0
"""Seconds of a rehearsal without output or work, and altogether: one takes about ten, of which
most are imports."""


class RehearseOptions(Settings):
    """rehearse: when to rehearse a start again."""

    always: bool = False
    """Although the same start was rehearsed before."""


class RehearseStep(Step):
    """vLLM's own command line parses what the server will be started with and makes its
    configuration, without weights and GPU memory; memory that stays held is counted by us."""

    name = "rehearse"
    phase = "stage"
    roles = ANSWERING
    failure = StagingFailed
    options = RehearseOptions
    uses = RELEASE_PARTS
    runs_release = True

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        rehearsed = Question(REHEARSED, Call(release_status.rehearsed, **wanted.unit_id))
        shm = facts.shared_memory()
        place = facts.place(wanted)
        return [rehearsed, shm, *place, *gpu_snapshot.questions(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        release = release_paths(wanted, answers).release
        unit = answers[UNIT]
        told = (answers.get(REHEARSED) or {}).get(release)
        if unit["state"] in RUNNING and unit["release"] == release:
            return Plan("unchanged", reason="the server runs", evidence=told or {})
        wrong = objections(wanted, answers)
        if wrong:
            return Plan("blocked", reason="; ".join(wrong))
        if told is None:
            return Plan("check", reason="not rehearsed yet")
        if wanted.option(self.name, ALWAYS, False):
            return Plan("check", reason="asked for")
        now = circumstances(wanted, answers, built.sealed_knowledge(wanted, answers))
        if told.get("circumstances") != now or not rehearsal.lasts(told):
            return Plan("check", reason="rehearsed under other circumstances")
        if rehearsal.refused(told):
            why = f"vLLM refused this start: {rehearsal.sentence(told)}"
            again = f"deployctl rehearse --profile {wanted.profile.name}"
            return Plan("blocked", reason=f"{why} (rehearse it again: {again})", evidence=told)
        return Plan("unchanged", reason="rehearsed before", evidence=told)

    def prove(self, context: Context) -> Evidence:
        wanted = context.wanted
        if profile_gpus.uses_gpus(wanted):
            wrong = list(held(wanted, look(context)))
            if wrong:
                raise self.fail(
                    context,
                    "this start would find too little memory",
                    "\n".join(wrong),
                    "stop what holds it, or lower serve.gpu_memory_utilization",
                )
        answers = sources.survey(context)
        launch = render(self, context, answers)
        state, log = self._carry_out(context, launch)
        answer = rehearsal.read(state, log)
        known = circumstances(wanted, context.answers.renewed(answers), built.knowledge(context))
        evidence = {
            **answer,
            "circumstances": known,
            "seconds": state.get("seconds"),
            "log": state["log"],
            "checks": _remarks(answer),
        }
        self._keep(context, evidence)
        if rehearsal.refused(answer):
            raise self.fail(
                context,
                f"vLLM refuses this start: {rehearsal.sentence(answer)}",
                str(answer.get("words") or ""),
                explain(log).next or "change what it names in the profile",
                evidence,
            )
        return evidence

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {name: evidence.get(name) for name in ("resolved", "backend")}

    def sentence(self, ended: Mapping[str, Any]) -> str:
        evidence = ended["evidence"]
        if evidence.get("outcome") != "accepted":
            return ""
        made = evidence.get("resolved") or {}
        forms = {"max_model_len": "context {}", "dtype": "{}", "kv_cache_dtype": "KV cache {}"}
        parts = [form.format(made[name]) for name, form in forms.items() if made.get(name)]
        parts += [f"attention by {evidence['backend']}"] if evidence.get("backend") else []
        if made.get("device") == "cuda" and evidence.get("cuda") is False:
            parts.append("PyTorch did not initialise CUDA")
        return ": ".join(("vLLM accepts the start", ", ".join(parts))).removesuffix(": ")

    def _carry_out(self, context: Context, launch: Mapping[str, Any]) -> tuple[JobState, str]:
        release, root = context.release, context.session.root
        path = f"{release.directory}/launcher.py"
        context.session.call(files.write, path=path, text=rehearsal.launcher_source())
        step = {
            "phase": "rehearsing",
            "argv": [
                f"{release.environment}/bin/python",
                f"{root}{path[1:]}",
                "rehearse",
                *rehearsal.rehearsed_argv(launch["argv"]),
            ],
            "env": launch["env"],
            "secrets": secret_values(self, context),
        }
        state = job.run(
            context,
            f"rehearse-{release.profile[:60]}-{release.release}",
            [step],
            stall=STALL,
            limit=LIMIT,
            label={"profile": release.profile, "release": release.release},
        )
        return state, job.log(context.session, state["id"])

    def _keep(self, context: Context, evidence: Evidence) -> None:
        context.session.call(
            release_status.write,
            **context.release.unit_id,
            release=context.release.release,
            kind="rehearsed",
            told=evidence,
        )


def _remarks(answer: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a rehearsal lets pass and warns of."""
    remarks = []
    if answer["outcome"] not in ("accepted", "refused"):
        say = f"the start was not rehearsed: {answer.get('words')}"
        remarks.append({"name": "rehearsal", "verdict": "unknown", "message": say, "say": say})
    if answer.get("cuda"):
        opened = ", ".join(answer.get("devices") or ()) or "no device file is open"
        say = f"PyTorch initialised CUDA in the rehearsal, beside what serves: {opened}"
        remarks.append({"name": "cuda", "verdict": "warning", "message": say, "say": say})
    if answer.get("selection"):
        say = f"vLLM's selector of attention backends says: {answer['selection']}"
        remarks.append({"name": "backend", "verdict": "warning", "message": say, "say": say})
    return remarks


def circumstances(wanted: Deployment, answers: Answers, knowledge: Knowledge) -> str:
    """A digest of all that a rehearsal's answer follows from beside the release's own identity."""
    drafter = "drafter" if sources.source(wanted, DRAFTER) is not None else None
    settings = serve_settings(wanted, "vllm", "model", drafter, knowledge)
    gpus = answers.get(GPUS)
    asked = [role for role in sources.ROLES if sources.question(wanted, role) is not None]
    return digest(
        {
            "deployctl": __version__,
            "launcher": rehearsal.launcher_source(),
            "argv": command(settings),
            "env": environment(wanted.profile.serve.env, wanted.profile.serve.gpus),
            "gpus": [(gpu["name"], gpu["driver"]) for gpu in (gpus["gpus"] if gpus else ())],
            "files": [found and found["files"] for found in map(answers.get, asked)],
        }
    )
