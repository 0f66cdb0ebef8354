"""Whether a profile's required fixes are there, given the verdicts of one tree. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deployctl.vllm.fixes.dflash_cache_drop import OPT_IN
from deployctl.vllm.fixes.interface import ABSENT, PRESENT, UNKNOWN, UNSUPPORTED, V2_ONLY

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def uses_v2_runner(env: Mapping[str, str], target: str) -> bool:
    """Whether the launch runs the V2 model runner, for a drafter that needs it.

    vLLM that has it routes such drafters there by itself, unless the variable forbids it; the
    runner needs Triton, so never on a CPU.
    """
    forced = env.get(RUNNER)
    return target == "cuda" and forced not in ("0", "false", "False")


def unmet(
    report: Mapping[str, Any],
    required: Iterable[str],
    v2_runner: bool,
    speculative: Mapping[str, Any],
) -> list[str]:
    """A sentence for every required fix that is not proven present.

    `speculative` are further keys of --speculative-config: one fix is there by opt-in first.
    """
    found = {entry["fix"]: entry for entry in report["fixes"]}
    opted_in = speculative.get(OPT_IN) is True
    return [
        sentence
        for name in required
        if (sentence := _sentence(name, found.get(name), v2_runner, opted_in)) is not None
    ]


def _sentence(
    name: str, entry: Mapping[str, Any] | None, v2_runner: bool, opted_in: bool
) -> str | None:
    if entry is None:
        return f"{name}: no such fix is known; `deployctl fixes` lists them"
    verdict = entry["verdict"]
    if verdict == PRESENT or (verdict == V2_ONLY and v2_runner):
        return None
    if verdict == ABSENT and opted_in and any(OPT_IN in e["what"] for e in entry["evidence"]):
        return None
    evidence = "; ".join(_place(item) for item in entry["evidence"])
    if verdict == V2_ONLY:
        return f"{name} is there for the V2 model runner alone, the launch runs V1 ({evidence})"
    word = {UNKNOWN: "is unknown", UNSUPPORTED: "cannot be there"}.get(verdict, f"is {verdict}")
    return f"{name} {word}: {evidence}"


def _place(item: Mapping[str, Any]) -> str:
    place = f"{item['file']}:{item['line']} " if item["file"] else ""
    return f"{place}{item['what']}"
