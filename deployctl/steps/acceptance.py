"""The drafter's acceptance, measured on the served model, against the profile's gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from deployctl.config.base import Settings
from deployctl.config.checks import AcceptanceSettings
from deployctl.errors import AcceptanceFailed, Undecided
from deployctl.steps.interface import (
    ANSWERING,
    SERVER,
    Answers,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
)
from deployctl.steps.measuring import last_good
from deployctl.steps.measuring.diagnosing import config_sentence, diagnosis, model_runner
from deployctl.steps.measuring.gates import (
    ASKED,
    asked_digest,
    gate_plan,
    gate_questions,
    one_process,
)
from deployctl.steps.servers.client import open_client
from deployctl.vllm.acceptance import evidence
from deployctl.vllm.acceptance.judgement import Gate
from deployctl.vllm.acceptance.measurement import Measured, Progress, Protocol, measure
from deployctl.vllm.client import prompt_sets
from deployctl.vllm.counters.counts import Counts, mean_acceptance_length, pooled


class AcceptanceOptions(Settings):
    """acceptance: how far below the last good release is still accepted."""

    tolerance: float | None = Field(default=None, ge=0)
    """Mean acceptance length that may be missing; the profile's own when absent."""


class AcceptanceStep(Step):
    """The drafter is worth having: what it proposes is accepted."""

    name = "acceptance"
    phase = "gate"
    roles = ANSWERING
    failure = AcceptanceFailed
    needs_release = False
    options = AcceptanceOptions
    uses = (SERVER,)
    figures = ("mean_acceptance_length", "acceptance_rate", "drafts", "interval", "verdict")
    compared = ("mean_acceptance_length", "acceptance_rate", "verdict")

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        return gate_questions(wanted)

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        settings = wanted.profile.acceptance
        if settings is None:
            return Plan("unchanged", reason="the profile asks for no acceptance", needless=True)
        return gate_plan(self.name, asked_digest(settings), wanted, answers)

    def prove(self, context: Context) -> Evidence:
        profile = context.wanted.profile
        settings = profile.acceptance
        if settings is None:
            raise self.fail(context, "the profile asks for no acceptance")
        before = last_good.last_good(context, self.name, settings)
        asked = asked_digest(settings)
        settings = _as_tolerant(settings, context.wanted.option(self.name, "tolerance"))
        earlier = last_good.earlier_of(before, settings)
        protocol = make_protocol(settings, profile.model.served_name, gate_of(settings), earlier)
        with one_process(self, context) as of, open_client(context) as client:
            measured = measure(client, protocol, _shown(context))
        protocol = _as_compared(protocol, measured)
        if before is not None and settings.tolerance is not None and not earlier:
            alone = f"not compared with release {before['release']}: its counts are not kept"
            reasons = (*measured.judgement.reasons, f"{alone} by prompt")
            measured.judgement = replace(measured.judgement, reasons=reasons)
        found = evidence_of(measured, protocol, settings)
        # Without a playbook's tolerance: what has passed is not asked about again every night.
        found |= {ASKED: asked, "last_good": last_good.shown(before, protocol, measured), **of}
        found["server"]["runner"] = model_runner(context)
        if measured.judgement.verdict == "pass":
            return found
        raise self._failed(context, measured, found)

    def sentence(self, ended: Mapping[str, Any]) -> str:
        return acceptance_sentence(ended["evidence"])

    def _failed(
        self, context: Context, measured: Measured, found: Evidence
    ) -> AcceptanceFailed | Undecided:
        verdict, said = measured.judgement.verdict, "; ".join(measured.judgement.reasons)
        host = context.wanted.host.name
        if verdict != "fail":
            return Undecided(
                host,
                self.name,
                f"{verdict}: {said}",
                next="fix the cause named above, or measure more prompts: acceptance.prompts "
                "names a set, acceptance.max_prompts how many of it",
                evidence=found,
            )
        found["diagnosis"], differences = diagnosis(context, measured, _expected(found))
        found["config_differences"] = differences
        if differences:
            why = config_sentence(differences)
            again = f"write the wanted config: deployctl up --profile {context.wanted.profile.name}"
            failed = AcceptanceFailed(host, self.name, said, why, again, found)
            failed.next_when_restored = (
                "the previous release serves; see where this one differed: deployctl diff current "
                f"{context.release.release[:12]} --profile {context.wanted.profile.name}"
            )
            return failed
        why = "\n".join(
            f"{cause['result']}: {cause['cause']} ({cause['reason']})"
            for cause in found["diagnosis"]
            if cause["result"] != "ruled out"
        )
        part = "the diagnosis on" if found["diagnosis"] else "its figures on"
        where = f"read {part} the report's page: deployctl report --open"
        return AcceptanceFailed(host, self.name, said, why, where, found)


def acceptance_sentence(evidence: Mapping[str, Any]) -> str:
    """A verdict on acceptance with its figures, as far as they are known."""
    length = evidence.get("mean_acceptance_length")
    verdict = evidence.get("verdict", "unknown")
    if length is None:
        return f"{verdict}: mean acceptance length unknown"
    rates = ["-" if r is None else f"{r:.3f}" for r in evidence.get("per_position") or []]
    positions = f", per position {' '.join(rates)}" if rates else ""
    interval = evidence.get("interval")
    span = f" [{interval['low']:.2f}, {interval['high']:.2f}]" if interval else ""
    prompts = evidence.get("prompts") or {}
    asked = f", {prompts['asked']} of {prompts['in_set']} prompts" if prompts.get("in_set") else ""
    floor = (evidence.get("gate") or {}).get("floor")
    missed = f" (floor {floor:g})" if verdict == "fail" and floor is not None else ""
    return f"{verdict}: mean acceptance length {length:.2f}{span}{missed}{positions}{asked}"


def _as_tolerant(settings: AcceptanceSettings, tolerance: float | None) -> AcceptanceSettings:
    """The settings with a playbook's tolerance, where the profile says none of its own."""
    if tolerance is None or settings.tolerance is not None:
        return settings
    return settings.model_copy(update={"tolerance": float(tolerance)})


def _as_compared(protocol: Protocol, measured: Measured) -> Protocol:
    """The protocol with the last good release's length on the prompts that both were asked."""
    common = [protocol.earlier[key] for key in measured.keys if key in protocol.earlier]
    return replace(
        protocol, gate=replace(protocol.gate, last_good=mean_acceptance_length(pooled(common)))
    )


def _expected(found: Evidence) -> float | None:
    """What this pair should reach: the last good release's length, or the highest reference."""
    if found["last_good"] is not None:
        return float(found["last_good"]["mean_acceptance_length"])
    lengths = [float(one["mean_acceptance_length"]) for one in found["references"]]
    return max(lengths, default=None)


def gate_of(settings: AcceptanceSettings) -> Gate:
    """The profile's gate."""
    floors = settings.min_length, settings.min_rate, settings.min_per_position or None
    return Gate(
        min_length=settings.min_length,
        min_rate=settings.min_rate,
        min_per_position=tuple(settings.min_per_position),
        min_drafts=settings.min_drafts,
        confidence=settings.confidence,
        tolerance=settings.tolerance,
        drafts_asked="min_drafts" in settings.model_fields_set
        or any(floor is not None for floor in floors),
    )


def make_protocol(
    settings: AcceptanceSettings,
    model: str,
    gate: Gate,
    earlier: Mapping[str, Counts] | None = None,
) -> Protocol:
    """How the profile wants acceptance measured; raises `ConfigError` for an unknown prompt set.

    Prompts are drawn by the seed; those that the last good release was asked come first.
    """
    earlier = earlier or {}
    prompts = prompt_sets.load(settings.prompts)
    order = prompt_sets.drawn(prompts.prompts, settings.seed)
    order.sort(key=lambda prompt: prompt.key not in earlier)
    return Protocol(
        model=model,
        prompt_set=prompts.name,
        prompts=tuple(order[: settings.max_prompts]),
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        thinking=settings.thinking,
        timeout=settings.timeout,
        gate=gate,
        seed=settings.seed,
        in_set=len(prompts.prompts),
        earlier=earlier,
    )


def evidence_of(measured: Measured, protocol: Protocol, settings: AcceptanceSettings) -> Evidence:
    """The evidence of a measurement, with everything that must be the same to compare another."""
    return {
        **evidence.acceptance(measured.source, measured.counts, measured.judgement, protocol.gate),
        "samples": len(measured.samples),
        "requests": measured.requests,
        "seconds": round(measured.seconds, 3),
        "prompts": last_good.prompts_of(settings)
        | {
            "asked": measured.requests,
            "in_set": protocol.in_set,
            "longest_prompt_tokens": max(measured.prompt_tokens, default=None),
        },
        "by_prompt": [
            {
                "prompt": key,
                "drafts": sample.drafts,
                "draft_tokens": sample.draft_tokens,
                "accepted_tokens": sample.accepted_tokens,
            }
            for key, sample in zip(measured.keys, measured.samples, strict=True)
        ],
        "server": {"version": measured.version, "model": protocol.model},
        "other_traffic": {
            "tokens": measured.foreign_tokens,
            "requests": measured.foreign_requests,
            "left_out": measured.left_out,
        },
        "references": [reference.model_dump() for reference in settings.references],
    }


def _shown(context: Context) -> Progress:
    def show(done: int, limit: int, counts: Counts) -> None:
        length = mean_acceptance_length(counts)
        detail = "" if length is None else f"mean acceptance length {length:.2f} so far"
        context.progress(f"request {done} of at most {limit}", detail, done / limit)

    return show
