"""What cleaning would change, what forbids it, and how its findings are reported. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deployctl.agent.wire.answers import UnitState
from deployctl.agent.wire.gpus import Gpu, StuckThread
from deployctl.steps.facts import PORT, UNIT
from deployctl.steps.gpus import clean_options, gpu_reset, profile_gpus
from deployctl.steps.gpus.gpu_snapshot import GpuSnapshot, in_words, tell
from deployctl.steps.gpus.holders import Process
from deployctl.steps.gpus.ownership import Verdict
from deployctl.steps.interface import Answers, Change, Deployment, Evidence
from deployctl.vllm.serving.fit import Share

BY_HAND = "by-hand"
"""The kind of a unit that was adopted and has no supervisor."""
ASLEEP = 2048
"""MiB of a GPU that a server may keep while it sleeps: its CUDA context, graphs and NCCL's buffers
(811 measured with a tiny model, eager)."""


def alive(unit: UnitState) -> bool:
    """Whether anything of the unit runs, be it only what a dead server left."""
    return unit["state"] in ("starting", "running") or bool(unit["members"])


def obstacles(wanted: Deployment, answers: Answers, now: GpuSnapshot) -> Iterator[str]:
    """Why cleaning cannot lead to free GPUs, known before anything is touched."""
    scope = clean_options.scope(wanted)
    if scope not in ("ours", "container", "gpu"):
        yield f"no such scope: {scope}; choose ours, container or gpu"
    if scope == "container" and wanted.host.node is None:
        yield "scope container needs a host that is a container with its node named"
    if scope == "gpu" and any(gpu["mig"] for gpu in now.gpus):
        yield "scope gpu would stop others' work on other MIG instances of the same GPU"
    for verdict in now.selection.frozen:
        yield (
            f"{in_words(verdict)} is frozen and takes no signal: "
            f"thaw its container first (lxc-unfreeze, pct resume), then run again"
        )
    yield from _held_by_others(wanted, now)
    yield from _unreadable(wanted, now)
    if clean_options.resets(wanted):
        leaving = frozenset(v.process.pid for v in now.selection.stop)
        reason = gpu_reset.refusal(wanted, answers, now, leaving)
        if reason is not None:
            yield f"GPU reset refused: {reason}"


def whole_gpus(now: GpuSnapshot) -> list[Gpu]:
    """The profile's GPUs whose memory tells whether it is free: that of a GPU divided by MIG is
    the sum of all its instances, which do not share it."""
    return [gpu for gpu in now.gpus if not gpu["mig"]]


def measured(now: GpuSnapshot) -> list[Gpu]:
    """Those of them whose memory in use is known. One that shares the machine's memory, and whose
    holders' memory is not reported, is left out: that no process holds it is proof.
    """
    return [gpu for gpu in whole_gpus(now) if not _left_out(gpu)]


def left_out(now: GpuSnapshot) -> dict[str, str]:
    """The other ones, by index, with why."""
    why = "it shares the machine's memory, and how much its holders have is not reported"
    return {str(gpu["index"]): why for gpu in whole_gpus(now) if _left_out(gpu)}


def _left_out(gpu: Gpu) -> bool:
    return bool(gpu.get("unified")) and gpu["memory_used"] is None


def available(now: GpuSnapshot, gpu: Gpu) -> int | None:
    """MiB that can be had on a GPU that shares the machine's memory; None for any other one, and
    while something runs that will be stopped: how much of the machine's memory that frees is not
    known."""
    if not gpu.get("unified") or now.selection.stop:
        return None
    return gpu.get("memory_available")


def _unreadable(wanted: Deployment, now: GpuSnapshot) -> Iterator[str]:
    """GPUs of which it could not be proven that they are free, whatever were stopped."""
    if clean_options.resets(wanted):
        return
    for gpu in measured(now):
        if gpu["memory_used"] is None:
            said = gpu["unknown"].get("memory.used") or "not reported"
            yield (
                f"GPU {gpu['index']}: its memory in use cannot be read ({said}), so nothing is "
                "stopped for it: see nvidia-smi, or reset it with deployctl clean --reset"
            )


def stays(now: GpuSnapshot, gpu: Gpu) -> list[Verdict]:
    """Those who keep memory on a GPU, on that one alone, after everything that is to be stopped is
    gone: so far as how much they hold is known. What sleeps by then is not among them."""
    return [
        v
        for v in now.selection.spared
        if v.process.gpus == frozenset((gpu["uuid"],)) and v.process.memory is not None
        if v.process.pid not in now.resting
    ]


def kept(now: GpuSnapshot, gpu: Gpu) -> int:
    """MiB of a GPU that stay held, so far as is known; what will sleep keeps little."""
    sleeps = any(v.process.pid in now.resting for v in now.on(gpu["uuid"]))
    return sum(v.process.memory or 0 for v in stays(now, gpu)) + (ASLEEP if sleeps else 0)


def room(wanted: Deployment, now: GpuSnapshot) -> int:
    """MiB that may be in use on each of the profile's GPUs so that vLLM has what it will ask for;
    what sleeps keeps some of it."""
    utilization = wanted.profile.serve.gpu_memory_utilization
    totals = [gpu["memory_total"] for gpu in measured(now) if gpu["memory_total"] is not None]
    left = [total - Share(total, total, utilization).wanted for total in totals]
    return int(min(left, default=ASLEEP))


def _held_by_others(wanted: Deployment, now: GpuSnapshot) -> Iterator[str]:
    limit = wanted.profile.clean.free_below_mib
    for gpu in whole_gpus(now):
        others = stays(now, gpu)
        held = sum(v.process.memory or 0 for v in others)
        if held >= limit:
            yield (
                f"GPU {gpu['index']}: {held} MiB stay held by "
                f"{'; '.join(in_words(v) for v in others)}: stop it, widen --scope, "
                f"or raise clean.free_below_mib ({limit})"
            )


def changes(wanted: Deployment, answers: Answers, now: GpuSnapshot) -> Iterator[Change]:
    """The unit and every process that is stopped, one by one."""
    unit = answers[UNIT]
    if alive(unit):
        what = f"pid {unit['pid']}, {len(unit['members'])} processes, stopped"
        if unit.get("kind") == BY_HAND:
            what = f"started by hand and adopted: {what}"
        yield Change(f"unit {wanted.profile.name}", unit["release"], "stopped", what)
    for verdict in now.selection.stop:
        if verdict.process.pid not in now.unit_pids:
            yield Change(
                f"process {verdict.process.pid}", in_words(verdict), "stopped", verdict.why
            )
    if clean_options.resets(wanted):
        for gpu in now.gpus:
            yield Change(f"GPU {gpu['index']}", gpu["uuid"], "reset", "asked for by --reset")


def before(wanted: Deployment, answers: Answers, now: GpuSnapshot) -> Evidence:
    """What was found before anything is stopped. `concerned` are the PIDs of those holders that
    are ours or hold a GPU of the profile, or may."""
    wanted_gpus = {gpu["uuid"] for gpu in now.gpus}
    concerned = [
        v.process.pid
        for v in now.holders()
        if v.word == "ours"
        or (wanted_gpus and (v.process.gpus is None or v.process.gpus & wanted_gpus))
    ]
    return {
        "gpu": profile_gpus.words(answers),
        "scope": clean_options.scope(wanted),
        "port": _port(wanted, answers),
        "holders": [tell(verdict) for verdict in now.holders()],
        "concerned": concerned,
        "stopped": [],
        "memory_before": now.memory(),
        "memory_after": None,
        "unknown": list(now.blind),
        "remarks": list(profile_gpus.remarks(now.gpus)),
    }


def _port(wanted: Deployment, answers: Answers) -> Evidence:
    """Who holds the profile's port; `listening` None where that is not known."""
    port, found = wanted.profile.serve.port, answers.get(PORT)
    if found is None:
        unknown = answers.unknown(PORT)
        reason = "" if unknown is None else unknown.reason
        return {"port": port, "listening": None, "holders": [], "unknown": reason}
    return {
        "port": port,
        "listening": found["listening"],
        "holders": found["holders"],
        "unknown": found["unknown"],
    }


def device_only(verdict: Verdict) -> bool:
    """Whether the GPU is what a process is stopped for, so that letting go of it spares it."""
    return verdict.proof != "record" and bool(verdict.process.devices)


def starters(stopped: Sequence[Verdict], now: GpuSnapshot) -> list[str]:
    """What may restart the stopped ones: a living parent that is not itself stopped, or a
    systemd service."""
    gone = {verdict.process.pid for verdict in stopped}
    living = {v.process.pid: v.process for v in now.verdicts if not v.process.zombie}
    found = []
    for verdict in stopped:
        process = verdict.process
        if process.service:
            found.append(f"service {process.service}")
        parent = living.get(process.parent)
        if parent is not None and parent.pid not in gone and not _is_init(parent):
            found.append(f"PID {parent.pid} {parent.name!r}")
    return sorted(set(found))


def _is_init(process: Process) -> bool:
    """The first process of a machine or container: it adopts orphans, and started none of them."""
    return 1 in (process.pid, *process.inner_pids[-1:])


def held_by(wanted: Deployment, now: GpuSnapshot, uuid: str, amount: int | None) -> str:
    """Whose the memory is that is still in use on a GPU."""
    told = "an unknown amount of memory" if amount is None else f"{amount} MiB"
    holders = now.on(uuid)
    if holders:
        return f"{told} held by {'; '.join(in_words(verdict) for verdict in holders)}"
    if now.blind:
        return f"{told} held by a process that is not visible: {now.blind[0]}"
    if now.contained and wanted.host.node is None:
        return f"{told} held by no process visible here: look on the node"
    return f"{told} held by no visible process: the driver keeps it, see deployctl clean --reset"


def where_stuck(pid: int, threads: Sequence[StuckThread]) -> str:
    """Where in the kernel a process hangs that survives SIGKILL."""
    places = [
        f"{thread['state']} in {' < '.join(thread['stack']) or thread['channel'] or 'unknown'}"
        for thread in threads
    ]
    return f"PID {pid}: {'; '.join(places) or 'location unknown'}"
