"""Gather what the host knows about a bad acceptance, and name its likely causes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deployctl.errors import RemoteError
from deployctl.hosts.operations import files, units
from deployctl.steps.facts import MODEL, TOOLS, known_releases
from deployctl.steps.interface import Context, Unanswered
from deployctl.steps.models import sources
from deployctl.steps.verify import VerifyStep
from deployctl.vllm.acceptance.diagnosis import Facts, diagnose
from deployctl.vllm.acceptance.measurement import Measured
from deployctl.vllm.counters.counts import (
    Counts,
    mean_acceptance_length,
    per_position_rates,
    pooled,
)
from deployctl.vllm.drafters import drafter
from deployctl.vllm.drafters.drafter_shape import shape, text_config
from deployctl.vllm.serving import serving_log

START_OF_LOG = 256 * 1024
"""Bytes: what a server prints until it serves."""
CONFIG_LIMIT = 1 << 20


def diagnosis(
    context: Context, measured: Measured, expected: float | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Likely causes, and the keys of the drafter's config.json in use that are not as wanted.

    What cannot be read stays unknown; a failed gate is never replaced by a failed diagnosis.
    """
    config = _config_in_use(context)
    wanted = context.wanted.profile.drafter
    differences = None
    if config is not None and wanted is not None and wanted.config:
        differences = drafter.differences(config, wanted.config)
    log = _start_of_log(context)
    settings = context.wanted.profile.acceptance
    early, late = _thirds(measured.samples)
    facts = Facts(
        per_position=per_position_rates(measured.counts),
        length=mean_acceptance_length(measured.counts) or 1.0,
        expected=expected,
        early=early,
        late=late,
        longest_prompt=max(measured.prompt_tokens, default=None),
        window=None if config is None else _window(config),
        thinking=None if settings is None else settings.thinking,
        differences=differences,
        fixes=_fixes(context),
        runner=serving_log.runner(log),
        backend=serving_log.backend(log) or context.wanted.profile.serve.attention_backend,
        capability=_capability(context),
        prefix_hits=measured.prefix_hits,
        method=None if wanted is None else wanted.method,
        multimodal=_multimodal(context),
    )
    return diagnose(facts), differences or []


def model_runner(context: Context) -> str | None:
    """The model runner of the running server, as its log tells it."""
    return serving_log.runner(_start_of_log(context))


def config_sentence(differences: list[dict[str, Any]]) -> str:
    """The wrong keys of the drafter's config.json, in one sentence."""
    keys = "; ".join(
        f"{one['key']} is {json.dumps(one['actual'])}, wanted {json.dumps(one['wanted'])}"
        for one in differences
    )
    return f"the drafter's config.json on the host is not what the profile wants: {keys}"


def _config_in_use(context: Context) -> dict[str, Any] | None:
    """The config.json of the drafter that the running server was started with."""
    folder = _drafter_in_use(context) or context.release.drafter
    try:
        file = context.session.call(files.read, path=f"{folder}/config.json", limit=CONFIG_LIMIT)
        return drafter.parse(file["text"] or "")
    except (RemoteError, drafter.DrafterConfigError):
        return None


def _drafter_in_use(context: Context) -> str | None:
    try:
        unit = context.session.call(units.state, **context.wanted.unit_id)
        argv = [str(word) for word in unit.get("argv") or []]
        given = json.loads(argv[argv.index("--speculative-config") + 1])
        return str(given["model"])
    except (RemoteError, ValueError, IndexError, KeyError, TypeError):
        return None


def _start_of_log(context: Context) -> str:
    try:
        read = context.session.call(
            units.log, **context.wanted.unit_id, offset=0, limit=START_OF_LOG
        )
    except RemoteError:
        return ""
    return str(read["text"])


def _fixes(context: Context) -> dict[str, str]:
    """The build's fixes by name, as verify probed them in this run or before it was sealed."""
    sealed = known_releases(context.answers)["environments"]
    seal = sealed.get(context.release.environment_key) or {}
    verified: Mapping[str, Any] = context.evidence.get(VerifyStep.name) or {}
    if "fixes" not in verified:
        verified = (seal.get("evidence") or {}).get(VerifyStep.name) or {}
    return {str(one["fix"]): str(one["verdict"]) for one in verified.get("fixes", ())}


def _window(config: Mapping[str, Any]) -> int | None:
    """The sliding window of a drafter's config; 0 where no layer slides, None where unclear."""
    said = shape(config)
    if not said.has_sliding_layers and not said.nested_use:
        return 0
    return said.sliding_window if said.nested_window is None else said.nested_window


def _multimodal(context: Context) -> bool | None:
    """Whether the target nests its language model in something larger; None where not known."""
    try:
        target = sources.config(context.wanted, context.answers, MODEL)
    except Unanswered:
        return None
    return text_config(target) is not target if target else None


def _capability(context: Context) -> float | None:
    """The highest compute capability of the host's GPUs."""
    tools = context.answers.get(TOOLS)
    found = (tools and tools["capabilities"]) or []
    try:
        return max((float(one) for one in found), default=None)
    except (TypeError, ValueError):
        return None


def _thirds(samples: list[Counts]) -> tuple[float | None, float | None]:
    """Mean acceptance length over the first and over the last third of the requests."""
    third = len(samples) // 3
    if third == 0:
        return None, None
    return (
        mean_acceptance_length(pooled(samples[:third])),
        mean_acceptance_length(pooled(samples[-third:])),
    )
