"""preflight: whether the host can do what is asked, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from deployctl.errors import StagingFailed
from deployctl.steps.interface import Answers, Context, Deployment, Evidence, Plan, Question, Step

Verdict = Literal["ok", "warning", "failed", "unknown"]

GIB = 1 << 30
DISK_NEEDED = {"cuda": 20 * GIB, "cpu": 5 * GIB, "empty": 2 * GIB}
"""Bytes for one more environment and its downloads: measured 2.1 GB + 0.4 GB for the CPU."""
MEMORY_NEEDED = {"cuda": 8 * GIB, "cpu": 3 * GIB, "empty": GIB}
"""Bytes for the server's processes: measured 2.9 GiB for a tiny model on the CPU."""


@dataclass(frozen=True)
class Check:
    """One condition: what was measured against what is needed."""

    check: str
    verdict: Verdict
    measured: Any
    needed: Any
    say: str = ""
    """What is wrong and what to do about it; empty where it is ok."""


class PreflightStep(Step):
    """Disk, memory, port, tools and GPUs of the host."""

    name = "preflight"
    phase = "stage"
    failure = StagingFailed

    def questions(self, wanted: Deployment) -> Sequence[Question]:
        return (
            Question("preflight.disk", "files.disk", {"path": "@"}),
            Question("tools", "environment.tools"),
            Question("port", "network.listener", {"port": wanted.profile.serve.port}),
            Question("unit", "units.state", {"name": wanted.profile.name}),
            Question("gpus", "gpu.state", where="node"),
        )

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        checks = tuple(all_checks(wanted, answers))
        evidence = {"checks": [asdict(check) for check in checks]}
        failed = [check for check in checks if check.verdict == "failed"]
        if failed:
            reason = "; ".join(check.say for check in failed)
            return Plan("blocked", reason=reason, evidence=evidence)
        return Plan("unchanged", evidence=evidence)

    def prove(self, context: Context) -> Evidence:
        return self.plan(context.wanted, context.answers).evidence


def all_checks(wanted: Deployment, answers: Answers) -> Iterator[Check]:
    """Every check, in the order in which people read them. Pure."""
    yield _amount(
        "disk", answers, "preflight.disk", "free", DISK_NEEDED[wanted.profile.build.target]
    )
    yield _amount(
        "memory", answers, "tools", "memory_available", MEMORY_NEEDED[wanted.profile.build.target]
    )
    yield port(wanted, answers)
    yield from tools(wanted, answers)
    yield gpus(wanted, answers)


def _amount(name: str, answers: Answers, key: str, field: str, needed: int) -> Check:
    unknown = answers.unknown(key)
    measured = None if unknown else answers[key].get(field)
    if measured is None:
        why = unknown.reason if unknown else f"{field} was not told"
        return Check(name, "unknown", None, needed, f"{name} is not known: {why}")
    if measured >= needed:
        return Check(name, "ok", measured, needed)
    say = f"{measured / GIB:.1f} GiB of {name} free, {needed / GIB:.0f} GiB are usually needed"
    return Check(name, "warning", measured, needed, say)


def port(wanted: Deployment, answers: Answers) -> Check:
    """The port is free, or held by the unit that this run replaces."""
    number = wanted.profile.serve.port
    unknown = answers.unknown("port")
    if unknown:
        return Check("port", "unknown", None, "free", f"port {number}: {unknown.reason}")
    listener = answers["port"]
    if not listener["listening"]:
        return Check("port", "ok", "free", "free")
    unit = answers.get("unit") or {}
    ours = {member["pid"] for member in unit.get("members") or ()}
    holders = listener["holders"]
    if holders and all(holder["pid"] in ours for holder in holders):
        return Check("port", "ok", "held by this profile's unit", "free")
    who = ", ".join(f"{h['pid']} ({h['command'] or h['comm']})" for h in holders)
    who = who or f"nobody visible: {listener.get('unknown') or 'no process of this machine'}"
    say = f"port {number} is held by {who}; stop it or choose another serve.port"
    return Check("port", "failed", who, "free", say)


def tools(wanted: Deployment, answers: Answers) -> Iterator[Check]:
    """Git where the source needs it; uv is brought along by `build` where it is missing."""
    unknown = answers.unknown("tools")
    source = wanted.profile.build.source
    if unknown:
        yield Check("tools", "unknown", None, "uv, git", unknown.reason)
        return
    found = answers["tools"]
    yield Check("uv", "ok", found.get("uv") or "missing, build brings it", "any")
    if source.ref is None and source.pr is None:
        return
    if found.get("git"):
        yield Check("git", "ok", found["git"], "any")
    else:
        say = "git is missing and the source is a repository; install git on the host"
        yield Check("git", "failed", None, "any", say)


def gpus(wanted: Deployment, answers: Answers) -> Check:
    """GPUs where the build is for CUDA; their absence is fine for any other."""
    target = wanted.profile.build.target
    needed = "at least one GPU" if target == "cuda" else "none"
    unknown = answers.unknown("gpus")
    if unknown:
        verdict: Verdict = "unknown" if target == "cuda" else "ok"
        return Check("gpu", verdict, None, needed, unknown.reason if target == "cuda" else "")
    state = answers["gpus"]
    if not state["present"]:
        say = f"absent: {state['reason']}"
        if target == "cuda":
            return Check("gpu", "failed", say, needed, f"no GPU, and build.target is cuda: {say}")
        return Check("gpu", "ok", say, needed)
    measured = [f"{gpu['index']}: {gpu['name']}" for gpu in state["gpus"]]
    if target == "cuda" and (state["unknown"] or not measured):
        return Check("gpu", "unknown", measured, needed, str(state["unknown"]))
    return Check("gpu", "ok", measured, needed)
