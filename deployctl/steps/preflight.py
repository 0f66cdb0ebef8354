"""preflight: whether the host can do what is asked, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deployctl.agent.wire.answers import Disk
from deployctl.agent.wire.builds import Tools
from deployctl.errors import StagingFailed
from deployctl.hosts.operations import files
from deployctl.hosts.session import Call
from deployctl.steps import facts
from deployctl.steps.build import environment_key, sealed
from deployctl.steps.facts import PORT, TOOLS, known_unit
from deployctl.steps.gpus import fitness, profile_gpus
from deployctl.steps.gpus.finding import Finding, Verdict
from deployctl.steps.identity import MAIN, full_name
from deployctl.steps.interface import (
    ENVIRONMENT,
    Answers,
    Context,
    Deployment,
    Evidence,
    Key,
    Plan,
    Question,
    Step,
    Unanswered,
    Unknown,
)
from deployctl.steps.servers import siblings, sleeping
from deployctl.steps.servers.process import strangers
from deployctl.steps.servers.ranks import processes_here
from deployctl.vllm.builds.libraries import NUMA, where

GIB = 1 << 30
DISK_NEEDED = {"cuda": 20 * GIB, "cpu": 5 * GIB, "empty": 2 * GIB}
"""Bytes for one more environment and its downloads: measured 2.1 GB + 0.4 GB for the CPU."""
MEMORY_NEEDED = {"cuda": 8 * GIB, "cpu": 3 * GIB, "empty": GIB}
"""Bytes for the server's processes: measured 2.9 GiB for a tiny model on the CPU."""

DISK = Key[Disk]("preflight.disk")


class PreflightStep(Step):
    """Disk, memory, port, tools and GPUs of the host."""

    name = "preflight"
    phase = "stage"
    failure = StagingFailed

    def questions(self, wanted: Deployment) -> Sequence[Question[Any]]:
        asked: list[Question[Any]] = [
            Question(DISK, Call(files.disk, path="@")),
            facts.tools(),
            facts.port(wanted),
            facts.unit(wanted),
            siblings.question(wanted),
            *profile_gpus.questions(wanted),
        ]
        return [*asked, *fitness.questions(wanted)]

    def plan(self, wanted: Deployment, answers: Answers) -> Plan:
        findings = tuple(findings_of(wanted, answers))
        evidence = {"checks": [finding.tell() for finding in findings]}
        failed = [f.say for f in findings if f.verdict == "failed"]
        if failed:
            return Plan("blocked", reason="; ".join(failed), evidence=evidence)
        # A container's configuration only explains: what it leaves open is judged inside.
        unknown = [f.say for f in findings if f.verdict == "unknown" and f.check != "conf"]
        if unknown:
            return Plan("unknown", reason="; ".join(unknown), evidence=evidence)
        return Plan("unchanged", evidence=evidence)

    def prove(self, context: Context) -> Evidence:
        return self.plan(context.wanted, context.answers).evidence


def findings_of(wanted: Deployment, answers: Answers) -> Iterator[Finding]:
    """Every finding, in the order in which people read them. Pure."""
    disk = answers.get(DISK)
    yield amount(
        "disk", disk and disk["free"], answers.unknown(DISK), _disk_needed(wanted, answers)
    )
    yield memory(wanted, answers)
    if wanted.role != "worker":
        yield port(wanted, answers)
    yield from slots(wanted, answers)
    yield from tools(wanted, answers)
    yield from fitness.findings(wanted, answers, processes_here(wanted.profile))


def amount(check: str, measured: int | None, unknown: Unknown | None, needed: int) -> Finding:
    """An amount in bytes; less than is usual is a warning, for small models need less."""
    if measured is None:
        why = unknown.reason if unknown else "it was not reported"
        return Finding(check, "unknown", None, needed, f"{check} is not known: {why}")
    if measured >= needed:
        return Finding(check, "ok", measured, needed)
    say = f"{measured / GIB:.1f} GiB of {check} free, {needed / GIB:.0f} GiB are usually needed"
    verdict: Verdict = "failed" if measured < needed // 4 else "warning"
    return Finding(check, verdict, measured, needed, say)


def _disk_needed(wanted: Deployment, answers: Answers) -> int:
    """An environment that is built already takes no more space."""
    try:
        built = sealed(answers, environment_key(wanted, answers)) is not None
    except Unanswered:
        built = False
    return GIB // 4 if built else DISK_NEEDED[wanted.profile.build.target]


def memory(wanted: Deployment, answers: Answers) -> Finding:
    """What the running unit holds will be free by the time its successor starts."""
    tools, needed = answers.get(TOOLS), MEMORY_NEEDED[wanted.profile.build.target]
    found = amount("memory", tools and tools["memory_available"], answers.unknown(TOOLS), needed)
    if found.verdict == "failed" and known_unit(answers)["members"]:
        return Finding("memory", "warning", found.measured, found.needed, found.say)
    return found


def port(wanted: Deployment, answers: Answers) -> Finding:
    """The port is free, or held by the unit that this run replaces."""
    number = wanted.profile.serve.port
    unknown = answers.unknown(PORT)
    if unknown:
        return Finding("port", "unknown", None, "free", f"port {number}: {unknown.reason}")
    listener = answers[PORT]
    if not listener["listening"]:
        return _free_port(number, listener["outgoing"])
    holders = listener["holders"]
    if holders and not strangers(listener, known_unit(answers)):
        return Finding("port", "ok", "held by this profile's unit", "free")
    who = ", ".join(f"PID {h['pid']} ({h['command'] or h['comm']})" for h in holders)
    who = who or f"no visible process: {listener.get('unknown') or 'no process of this machine'}"
    say = f"port {number} is held by {who}; stop it or choose another serve.port"
    return Finding("port", "failed", who, "free", say)


def _free_port(number: int, outgoing: Sequence[int] | None) -> Finding:
    """Free now; one that the kernel may lend to an outgoing connection can be held at a start."""
    if not outgoing:
        return Finding("port", "ok", "free", "free")
    say = (
        f"port {number} is free, but the host may give it to an outgoing connection, as any from "
        f"{outgoing[0]} to {outgoing[1]}, and then a start fails; choose another, or reserve it"
    )
    line = f"net.ipv4.ip_local_reserved_ports = {number}"
    return Finding("port", "warning", "free", "free", say, "/etc/sysctl.d/serving.conf", (line,))


def slots(wanted: Deployment, answers: Answers) -> Iterator[Finding]:
    """What still runs in slots of a profile that is not blue-green any more, or by itself where the
    next server would need its GPUs."""
    alone = (answers.get(siblings.UNITS) or {}).get(MAIN)
    if sleeping.wants(wanted.profile) and alone is not None and siblings.runs(alone):
        name = wanted.profile.name
        say = (
            f"{name} still runs in no slot, pid {alone['pid']}, from before switch.strategy: sleep"
        )
        say = f"{say}; stop it once: deployctl down --profile {name}"
        yield Finding("slots", "failed", name, "stopped", say)
    for one, unit in siblings.left(wanted, answers).items():
        name = full_name(wanted.profile.name, one)
        say = f"{name} still runs, pid {unit['pid']}, from when this profile was blue-green"
        say = f"{say}; stop it: deployctl down --profile {wanted.profile.name}"
        yield Finding("slots", "failed", name, "stopped", say)


def tools(wanted: Deployment, answers: Answers) -> Iterator[Finding]:
    """Git where the source needs it; uv is brought along by `build` where it is missing."""
    unknown = answers.unknown(TOOLS)
    source = wanted.profile.build.source
    if unknown:
        yield Finding("tools", "unknown", None, "uv, git", unknown.reason)
        return
    found = answers[TOOLS]
    yield Finding("uv", "ok", found["uv"] or "missing, build brings it", "any")
    yield Finding("python", "ok", found["pythons"], wanted.profile.build.python)
    yield from libraries(wanted, found)
    yield from compiler(wanted, found)
    delivery = wanted.deliveries.get(ENVIRONMENT)
    received = delivery is not None and delivery.receives
    build = wanted.profile.build
    if (source.ref is None and source.pr is None and not build.patches) or received:
        return
    if found["git"]:
        yield Finding("git", "ok", found["git"], "any")
    else:
        needs = "build.patches needs it" if build.patches else "the source is a repository"
        say = f"git is missing and {needs}; install git"
        yield Finding("git", "failed", None, "any", say, "host", ("apt-get install git",))


def libraries(wanted: Deployment, found: Tools) -> Iterator[Finding]:
    """libnuma, which vLLM's CPU build loads: published wheels always, others as they were built."""
    there = found["libraries"].get(NUMA)
    if wanted.profile.build.target != "cpu" or "LD_LIBRARY_PATH" in wanted.profile.serve.env:
        return
    if there:
        yield Finding("libraries", "ok", NUMA, NUMA)
    elif there is False:
        verdict: Verdict = "failed" if wanted.profile.build.source.release else "warning"
        say = f"{NUMA} is missing, which vLLM's CPU build loads; {where(NUMA)}"
        yield Finding("libraries", verdict, None, NUMA, say)
    else:
        say = f"whether {NUMA} is there could not be tried; verify will"
        yield Finding("libraries", "warning", None, NUMA, say)


def compiler(wanted: Deployment, found: Tools) -> Iterator[Finding]:
    """A compiler for what is compiled as a server starts: by Triton on GPUs, by Inductor's C++
    back end (with OpenMP) on a CPU, unless it runs eagerly."""
    serve, target = wanted.profile.serve, wanted.profile.build.target
    if target == "empty" or (target == "cpu" and serve.args.get("enforce-eager")):
        return
    if target == "cpu":
        name, by, packages = "g++", "Inductor", "g++ (gcc-c++ on Fedora)"
        program = serve.env.get("CXX") or found["g++"]
    else:
        name, by, packages = "cc", "Triton", "gcc"
        program = serve.env.get("CC") or found["cc"] or found["gcc"] or found["clang"]
    if program:
        yield Finding("compiler", "ok", program, name)
    else:
        say = f"no {name}, and {by} compiles when a server starts; install {packages}"
        yield Finding("compiler", "warning", None, name, say)
