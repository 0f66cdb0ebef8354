"""The drafter's acceptance, measured on the served model, against the profile's gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import AcceptanceFailed, RemoteError, Undecided
from deployctl.steps.gates import ASKED, asked_digest, gate_plan, gate_questions, open_client
from deployctl.steps.interface import (
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.vllm import drafter, evidence, prompt_sets
from deployctl.vllm.counts import Counts, mean_acceptance_length
from deployctl.vllm.judgement import Gate
from deployctl.vllm.measurement import Measured, Progress, Protocol, measure


class AcceptanceStep(Step):
    """The drafter is worth having: what it proposes is accepted."""

    name = "acceptance"
    phase = "gate"
    failure = AcceptanceFailed
    needs_release = False
    follows = ("launch",)

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return gate_questions(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        settings = wanted.profile.acceptance
        if settings is None:
            return Plan("unchanged", reason="the profile asks for no acceptance")
        return gate_plan(self.name, asked_digest(settings), wanted, answers)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        settings = profile.acceptance
        if settings is None:
            raise self.fail(context, "the profile asks for no acceptance")
        protocol = make_protocol(settings, profile.model.served_name, gate_of(settings))
        with open_client(context) as client:
            measured = measure(client, protocol, _shown(context))
        found = evidence_of(measured, protocol, settings)
        found[ASKED] = asked_digest(settings)
        if measured.judgement.verdict == "pass":
            return found
        wrong = config_differences(context) if measured.judgement.verdict == "fail" else []
        found["config_differences"] = wrong
        raise self._failed(context, measured, found, wrong)

    def _failed(
        self, context: Context, measured: Measured, found: Evidence, wrong: list[dict[str, Any]]
    ) -> AcceptanceFailed | Undecided:
        said = "; ".join(measured.judgement.reasons)
        host = context.wanted.host.name
        if measured.judgement.verdict != "fail":
            return Undecided(
                host,
                self.name,
                f"{measured.judgement.verdict}: {said}",
                next="give it more prompts: acceptance.max_prompts, or mend what the reason names",
                evidence=found,
            )
        if not wrong:
            return AcceptanceFailed(host, self.name, said, evidence=found)
        return AcceptanceFailed(
            host,
            self.name,
            said,
            config_sentence(wrong),
            f"write the wanted config: deployctl up --profile {context.wanted.profile.name}",
            found,
        )


def gate_of(settings: AcceptanceSettings, last_good: float | None = None) -> Gate:
    """The profile's gate; `last_good` is the last good release's length on the same prompts."""
    return Gate(
        min_length=settings.min_length,
        min_rate=settings.min_rate,
        min_per_position=tuple(settings.min_per_position),
        min_drafts=settings.min_drafts,
        confidence=settings.confidence,
        tolerance=settings.tolerance,
        last_good=last_good,
    )


def make_protocol(settings: AcceptanceSettings, model: str, gate: Gate) -> Protocol:
    """How the profile wants acceptance measured; raises `ConfigError` for an unknown prompt set."""
    prompts = prompt_sets.load(settings.prompts)
    return Protocol(
        model=model,
        prompt_set=prompts.name,
        prompts=prompts.prompts[: settings.max_prompts],
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        thinking=settings.thinking,
        timeout=settings.timeout,
        gate=gate,
        seed=settings.seed,
    )


def evidence_of(measured: Measured, protocol: Protocol, settings: AcceptanceSettings) -> Evidence:
    """The evidence of a measurement, with everything that must be the same to compare another."""
    return {
        **evidence.acceptance(measured.source, measured.counts, measured.judgement, protocol.gate),
        "samples": len(measured.samples),
        "requests": measured.requests,
        "seconds": round(measured.seconds, 3),
        "prompts": {
            "set": protocol.prompt_set,
            "limit": len(protocol.prompts),
            "max_tokens": protocol.max_tokens,
            "temperature": protocol.temperature,
            "thinking": protocol.thinking,
            "seed": protocol.seed,
            "longest_prompt_tokens": max(measured.prompt_tokens, default=None),
        },
        "other_traffic": {
            "tokens": measured.foreign_tokens,
            "requests": measured.foreign_requests,
            "left_out": measured.left_out,
        },
        "references": [reference.model_dump() for reference in settings.references],
    }


def config_differences(context: Context) -> list[dict[str, Any]]:
    """Where the drafter's config.json in use differs from the profile's wanted values.

    Each has `key`, `actual` and `wanted`. Empty where it cannot be read: nothing is claimed then.
    """
    wanted = context.wanted.profile.drafter
    if wanted is None or not wanted.config:
        return []
    folder = _drafter_in_use(context) or context.release.drafter
    try:
        file = context.session.call("files.read", path=f"{folder}/config.json", limit=1 << 20)
        return drafter.differences(json.loads(file["text"] or "null") or {}, wanted.config)
    except (RemoteError, ValueError):
        return []


def config_sentence(wrong: list[dict[str, Any]]) -> str:
    """The wrong keys of the drafter's config.json, in one sentence."""
    keys = "; ".join(
        f"{one['key']} is {json.dumps(one['actual'])}, wanted {json.dumps(one['wanted'])}"
        for one in wrong
    )
    return f"the drafter's config.json on the host is not what the profile wants: {keys}"


def _drafter_in_use(context: Context) -> str | None:
    """The drafter's folder that the running server was started with."""
    try:
        unit = context.session.call("units.state", name=context.wanted.profile.name)
        argv = [str(word) for word in unit.get("argv") or []]
        given = argv[argv.index("--speculative-config") + 1]
        model = json.loads(given).get("model")
    except (RemoteError, ValueError, IndexError, AttributeError):
        return None
    return str(model) if model else None


def _shown(context: Context) -> Progress:
    def show(done: int, limit: int, counts: Counts) -> None:
        length = mean_acceptance_length(counts)
        detail = "" if length is None else f"mean acceptance length {length:.2f} so far"
        context.progress(f"request {done} of at most {limit}", detail, done / limit)

    return show
