"""tune: which number of draft tokens is fastest on this host, measured on the profile's prompts.

The release is not changed and nothing is written: each candidate is a server of its own with
another --speculative-config, started from the current release on another port. Beside what serves
where there is memory for both; else, where that was allowed, in its place, and the release is
started again and proven ready at the end, whatever happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

from pydantic import Field

from deployctl import cancel
from deployctl.config.base import Settings
from deployctl.errors import SmokeFailed
from deployctl.steps.facts import GPUS, RELEASES, UNIT
from deployctl.steps.gpus import profile_gpus
from deployctl.steps.interface import (
    ANSWERING,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.launch import LaunchStep
from deployctl.steps.measuring import tuned
from deployctl.steps.measuring.gates import gate_questions
from deployctl.steps.measuring.tuning import CONCURRENCIES, ROUNDS, VALUES, Tuning
from deployctl.steps.ready import ReadyStep
from deployctl.steps.servers import siblings
from deployctl.steps.servers.process import RUNNING
from deployctl.steps.servers.stopping import REQUESTS, stop_unit
from deployctl.vllm.serving.fit import Share

INTERRUPT = "interrupt"


class TuneOptions(Settings):
    """tune: the candidates, the concurrencies, and whether what serves may be stopped."""

    values: list[Annotated[int, Field(ge=0)]] = Field(default=[*VALUES], min_length=1)
    """Numbers of draft tokens to measure, 0 for no speculation; the serving one is added."""
    concurrencies: list[Annotated[int, Field(ge=1)]] = Field(default=[*CONCURRENCIES], min_length=1)
    """Requests at a time at which each is measured."""
    rounds: int = Field(default=ROUNDS, ge=2)
    """Rounds of a candidate that is measured to the end; each is as many requests at once as the
    concurrency."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of the intervals, and of all comparisons at a concurrency together."""
    interrupt: bool = False
    """Stop what serves while the candidates are measured, and start it again at the end."""


class TuneStep(Step):
    """Tokens per second with other numbers of draft tokens; the release stays as it is."""

    name = "tune"
    phase = "gate"
    roles = ANSWERING
    failure = SmokeFailed
    options = TuneOptions
    needs_release = False
    borrows = True

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        gpus = profile_gpus.questions(wanted) if profile_gpus.uses_gpus(wanted) else ()
        return [*gate_questions(wanted), siblings.question(wanted), *gpus]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        wrong = _refusal(wanted, answers)
        if wrong:
            return Plan("blocked", reason=wrong)
        starts = len(values(self, wanted)) - 1
        if not starts:
            return Plan(
                "blocked", reason="name a number of draft tokens other than the serving one"
            )
        if wanted.option(self.name, INTERRUPT, False):
            why = f"for {starts + 2} starts of other servers; started again at the end in any case"
            release = str(answers[UNIT]["release"])
            return Plan("change", (Change("server", f"release {release}", "stopped", why),))
        little = _no_room(wanted, answers)
        if little:
            advice = "to stop what serves meanwhile: deployctl tune --interrupt"
            return Plan("blocked", reason=f"{little}; {advice}")
        return Plan("check", reason=f"{starts} servers are started in turn beside what serves")

    def apply(self, context: Context, plan: Plan) -> None:
        """Nothing of its own: what serves is stopped and started again around the measurement."""

    def prove(self, context: Context) -> Evidence:
        option = context.wanted.option
        interrupts = bool(option(self.name, INTERRUPT, False))
        tuning = Tuning(
            self,
            context,
            values(self, context.wanted),
            tuple(option(self.name, "concurrencies", CONCURRENCIES)),
            int(option(self.name, "rounds", ROUNDS)),
            float(option(self.name, "confidence", 0.95)),
            beside=not interrupts,
        )
        with self._set_aside(context) if interrupts else nullcontext():
            return tuning.measured()

    @contextmanager
    def _set_aside(self, context: Context) -> Iterator[None]:
        """Stop what serves, and start it again and prove it ready however the rest ends: a failure
        and an interrupt as well; a second interrupt cuts that short."""
        release = context.release.release
        context.progress("stop", f"release {release}")
        stopped = stop_unit(context.session, context.wanted)
        context.evidence.setdefault(LaunchStep.name, {})[REQUESTS] = stopped["requests"]
        try:
            yield
        finally:
            with cancel.shielded():
                context.log(f"starting release {release} again")
                change = Change("serving release", None, release, "the measurement ended")
                for step in (LaunchStep(), ReadyStep()):
                    step.apply(context, Plan("change", (change,)))
                    context.evidence[step.name] = step.prove(context)

    def sentence(self, ended: Mapping[str, Any]) -> str:
        return tuned.sentence(ended["evidence"]) if ended["evidence"].get("levels") else ""

    def details(self, evidence: Mapping[str, Any]) -> Iterator[str]:
        return tuned.lines(evidence) if evidence.get("levels") else iter(())


def values(step: Step, wanted: Deployment) -> tuple[int, ...]:
    """The candidates in the order in which they are measured: the serving number first."""
    assert wanted.profile.drafter is not None
    current = wanted.profile.drafter.num_speculative_tokens
    asked = {int(value) for value in wanted.option(step.name, "values", VALUES)}
    return (current, *sorted(asked - {current}, reverse=True))


def _refusal(wanted: Deployment, answers: Answers) -> str:
    """Why nothing can be measured; empty where it can."""
    profile, unit, releases = wanted.profile, answers[UNIT], answers[RELEASES]
    if profile.drafter is None:
        return "what serves has no drafter: there is nothing to tune"
    if wanted.member is not None:
        return "a model over several hosts has no second server to compare with"
    if profile.replicas.per_host > 1:
        return "several replicas share this host: a candidate would be measured beside all of them"
    if unit["state"] not in RUNNING or unit["release"] != releases["current"]:
        return f"the current release does not run: run deployctl up --profile {profile.name}"
    if profile.router is not None and wanted.option(TuneStep.name, INTERRUPT, False):
        return "a replica behind a router is not stopped for a measurement"
    return ""


def _no_room(wanted: Deployment, answers: Answers) -> str:
    """Why a second server does not fit on the GPUs beside what serves; empty where it may. On a CPU
    its start shows it."""
    if not profile_gpus.uses_gpus(wanted):
        return ""
    for gpu in profile_gpus.profile_gpus(wanted, answers):
        total, used = gpu["memory_total"], gpu["memory_used"]
        left = gpu.get("memory_available") if gpu.get("unified") else None
        if total is not None and left is None and used is not None:
            left = total - used
        if total is None or left is None:
            return f"the free memory of GPU {gpu['index']} is unknown"
        share = Share(total, left, wanted.profile.serve.gpu_memory_utilization)
        if share.too_much:
            return (
                f"GPU {gpu['index']} has {left} MiB free beside what serves, and another server "
                f"takes {share.wanted:.0f} MiB"
            )
    if not answers[GPUS]["present"]:
        return f"the host's GPUs are unknown: {answers[GPUS]['reason']}"
    return ""
