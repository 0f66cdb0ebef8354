"""drafter: the config.json that the server will read is the wanted one, checked and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files
from deployctl.steps import facts
from deployctl.steps.builds.built import knowledge, sealed_knowledge, sha256
from deployctl.steps.facts import DRAFTER, MODEL, RELEASES, VIEWS
from deployctl.steps.interface import (
    DRAFTER_CONFIG,
    Answers,
    Change,
    Context,
    Deployment,
    Evidence,
    Plan,
    Question,
    Step,
    change_sentence,
)
from deployctl.steps.models import sources
from deployctl.steps.release import release_paths
from deployctl.steps.verify import VerifyStep
from deployctl.vllm.drafters.drafter import (
    Desired,
    DrafterConfigError,
    config_changes,
    desired,
    parse,
)
from deployctl.vllm.drafters.drafter_checks import check, errors
from deployctl.vllm.drafters.drafter_verdicts import Check, Circumstances
from deployctl.vllm.serving.knowledge import Knowledge

NOTHING_KNOWN = Knowledge()
LAYER_OFFSET = "dflash-layer-offset"
"""The fix with which a vLLM counts the drafter's layers right."""


def wanted_config(wanted: Deployment, answers: Answers) -> Desired:
    """Upstream's config with the profile's overrides; raises `DrafterConfigError`."""
    assert wanted.profile.drafter is not None
    upstream = sources.config_text(wanted, answers, DRAFTER)
    return desired(upstream, wanted.profile.drafter.config)


def checks_of(
    wanted: Deployment,
    answers: Answers,
    config: Desired,
    known: Knowledge = NOTHING_KNOWN,
    has_offset: bool | None = None,
) -> list[Check]:
    """The checks of the wanted config against the target, the weights and the built vLLM."""
    drafter = wanted.profile.drafter
    assert drafter is not None
    around = Circumstances(
        target=sources.config(wanted, answers, MODEL),
        method=drafter.method,
        draft_tokens=drafter.num_speculative_tokens,
        upstream=sources.config(wanted, answers, DRAFTER),
        architectures=known.architectures,
        layer_offset=has_offset,
        tensors=answers[DRAFTER]["tensors"],
        mask_tokens=answers[MODEL]["mask_tokens"],
    )
    return check(config.config, around, drafter.warn_only)


def layer_offset(fixes: Iterable[Mapping[str, Any]]) -> bool | None:
    """Whether a build has the layer offset's fix, from verify's findings; None for unknown."""
    verdicts = {str(entry["fix"]): str(entry["verdict"]) for entry in fixes}
    return {"present": True, "absent": False}.get(verdicts.get(LAYER_OFFSET, ""))


class DrafterStep(Step):
    """Renders the drafter's config, checks it, writes it whole and reads it back."""

    name = "drafter"
    phase = "stage"
    failure = StagingFailed
    produces = frozenset({DRAFTER_CONFIG})

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        asked = [sources.question(wanted, role) for role in sources.ROLES]
        views = facts.drafter_views(wanted)
        return [*(q for q in asked if q is not None), views]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        if sources.source(wanted, DRAFTER) is None:
            return Plan("unchanged", reason="no drafter model")
        try:
            config = wanted_config(wanted, answers)
        except DrafterConfigError as error:
            return Plan("blocked", reason=str(error))
        checks = checks_of(wanted, answers, config, sealed_knowledge(wanted, answers))
        evidence = _evidence(config, checks)
        if errors(checks):
            names = ", ".join(dict.fromkeys(c.name for c in errors(checks)))
            reason = f"{_reasons(checks)} (drafter.warn_only [{names}] would only warn)"
            return Plan("blocked", reason=reason, evidence=evidence)
        release = release_paths(wanted, answers).release
        view = answers[VIEWS].get(release)
        on_disk = view and view["config"]
        if on_disk and on_disk["text"] == config.text and not on_disk["link"]:
            return Plan("unchanged", evidence=_proven(answers, release) or evidence)
        changes = _changes(config, on_disk and on_disk["text"])
        reason = "the file differs from the wanted one" if on_disk else "new here, from upstream's"
        return Plan("change", changes, reason, evidence)

    def apply(self, context: Context, plan: Plan) -> None:
        config = wanted_config(context.wanted, context.answers)
        self._refuse(context, self._checks(context, config))
        path = f"{context.release.drafter}/config.json"
        context.session.call(files.write, path=path, text=config.text)

    def prove(self, context: Context) -> Evidence:
        config = wanted_config(context.wanted, context.answers)
        path = f"{context.release.drafter}/config.json"
        read = context.session.call(files.read, path=path)
        if read["text"] != config.text or read["link"]:
            raise self.fail(
                context,
                f"{read['path']} does not contain what was written",
                f"sha256 {read['sha256']}, wanted {sha256(config.text)}",
                "find what else writes there, then retry",
            )
        checks = self._checks(context, config)
        self._refuse(context, checks)
        return {**_evidence(config, checks), "path": read["path"], "mode": f"{read['mode']:04o}"}

    def manifest(self, evidence: Mapping[str, Any]) -> dict[str, Any]:
        return {"drafter_config": evidence.get("sha256")}

    def sentence(self, ended: Mapping[str, Any]) -> str:
        evidence = ended["evidence"]
        if ended["status"] == "unchanged":
            return "config.json is as wanted" if evidence.get("sha256") else ""
        if ended.get("changes"):
            # What this run wrote: the evidence tells what differs from upstream, whenever written.
            return ", ".join(change_sentence(change) for change in ended["changes"])
        changed = ", ".join(
            f"{c['key']}: {c['old']} -> {c['new']}" for c in evidence.get("changed") or ()
        )
        return changed or ("config.json is as wanted" if evidence else "")

    def _checks(self, context: Context, config: Desired) -> list[Check]:
        """All checks, with what is known once the models are there and vLLM is built."""
        answers = sources.survey(context)
        offset = layer_offset(context.evidence.get(VerifyStep.name, {}).get("fixes") or ())
        return checks_of(context.wanted, answers, config, knowledge(context), offset)

    def _refuse(self, context: Context, checks: Sequence[Check]) -> None:
        if errors(checks):
            raise self.fail(
                context,
                "the wanted drafter config cannot work, nothing was written",
                _reasons(checks),
                "fix drafter.config in the profile; drafter.warn_only turns a check into a warning",
                {"checks": [asdict(c) for c in checks]},
            )


def _reasons(checks: Sequence[Check]) -> str:
    return "; ".join(f"{c.name}: {c.message}" for c in errors(checks))


def _proven(answers: Answers, release: str) -> Evidence | None:
    """The evidence with which this release was sealed: it knew what was built."""
    manifest = answers[RELEASES]["releases"].get(release) or {}
    found: Evidence | None = (manifest.get("evidence") or {}).get(DrafterStep.name)
    return found


def _changes(config: Desired, on_disk: str | None) -> tuple[Change, ...]:
    """What differs on disk; where nothing is there yet, what differs from upstream."""
    if on_disk is None:
        found = list(config.changed)
        return tuple(Change(c.key, c.old, c.new) for c in found) or (Change("config.json"),)
    try:
        differing = config_changes(parse(on_disk), config.config)
    except DrafterConfigError as error:
        return (Change("config.json", why=str(error)),)
    changes = tuple(Change(c.key, c.old, c.new, "on disk") for c in differing)
    return changes or (Change("config.json", why="same values, other bytes"),)


def _evidence(config: Desired, checks: Sequence[Check]) -> Evidence:
    return {
        "sha256": sha256(config.text),
        "changed": [asdict(c) for c in config.changed],
        "checks": [asdict(c) for c in checks],
    }
