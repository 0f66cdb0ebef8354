"""Servers that can sleep: how they are started, and whether what serves can sleep now. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from deployctl.agent.wire.answers import Sleeper
from deployctl.config.profile import Profile
from deployctl.config.serve import ServeSettings
from deployctl.steps.facts import GPUS
from deployctl.steps.gpus import clearing
from deployctl.steps.gpus.gpu_snapshot import GpuSnapshot, snapshot
from deployctl.steps.interface import Answers, Deployment, Unanswered
from deployctl.steps.servers import stopping
from deployctl.vllm.serving.fit import Share

SLEEP, WAKE = "sleep", "wake"
"""How a record names what becomes of what serves, beside the steps of a playbook."""
MODE, MIDDLEWARE = "enable-sleep-mode", "middleware"
GUARD = "deployctl_guard.Guard"
"""The middleware that keeps control endpoints for deployctl, as vLLM imports it."""
NEED = 4 << 30
"""Bytes of host memory that must be left beside the weights of what sleeps: its successor's."""
GIB = 1 << 30


def able(serve: ServeSettings) -> ServeSettings:
    """The same server, started so that it can sleep."""
    return serve.model_copy(update={"args": {**serve.args, MODE: True, MIDDLEWARE: GUARD}})


def wants(profile: Profile) -> bool:
    """Whether a unit's server is to be one that can sleep."""
    return profile.serve.args.get(MIDDLEWARE) == GUARD


def guard(argv: Sequence[str]) -> str:
    """The text of the guard for a server with this command line; empty where it names none."""
    if GUARD not in argv:
        return ""
    return resources.files("deployctl.vllm.serving").joinpath("guard.py").read_text("utf-8")


def obstacles(now: Sleeper, wanted: Deployment, answers: Answers) -> Iterator[str]:
    """Why what serves cannot sleep while the wanted server is started; `now` is the agent's look
    at it."""
    if not now["able"]:
        yield "it was started without sleep mode"
        return
    weights, memory = now["weights"], now["memory"]
    if weights is None:
        yield "how much memory its weights need is not known"
    elif memory < weights + NEED:
        yield (
            f"{memory / GIB:.1f} GiB of host memory are available, its weights and the next server "
            f"need {(weights + NEED) / GIB:.1f}"
        )
    state = answers.get(GPUS)
    if wanted.profile.build.target != "cuda" or not state or not state["gpus"]:
        return
    try:
        yield from too_little_left(snapshot(wanted, answers), wanted)
    except Unanswered:
        return


def too_little_left(now: GpuSnapshot, wanted: Deployment) -> Iterator[str]:
    """GPUs on which what sleeps leaves less than the next server will ask for."""
    utilization = wanted.profile.serve.gpu_memory_utilization
    for gpu in clearing.whole_gpus(now):
        if gpu["memory_total"] is None:
            continue
        kept = clearing.kept(now, gpu)
        share = Share(gpu["memory_total"], gpu["memory_total"] - kept, utilization)
        if share.too_much:
            yield (
                f"asleep, it keeps about {clearing.ASLEEP} MiB of GPU {gpu['index']}; "
                f"{share.sentence()}"
            )


def sentence(ended: Mapping[str, Any]) -> str:
    """What became of the server that served, from a step between those of a playbook."""
    found: Mapping[str, Any] = ended.get("evidence") or {}
    if ended["step"] == SLEEP and "asleep" in found:
        how = f"asleep after {found['seconds']:g} s" if found["asleep"] else "stopped"
        return ", ".join(
            part for part in (f"{found['unit']} {how}", stopping.in_words(found)) if part
        )
    if ended["step"].endswith(WAKE) and "awake_after" in found:
        return f"{found['unit']} awake after {found['awake_after']:g} s: {found['why']}"
    return ""
