"""Which GPUs are the profile's: `serve.gpus` counts as nvidia-smi does on the host. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from deployctl.agent.wire.gpus import Gpu, GpuState
from deployctl.hosts import operations
from deployctl.hosts.session import Call
from deployctl.steps.facts import GPUS
from deployctl.steps.interface import Answers, Deployment, Key, Question, Unanswered

INSIDE = Key[GpuState]("gpus.inside")
NOT_GIVEN = "this nvidia-smi does not report it"
"""The agent's words for a field that an old nvidia-smi does not have."""


class NoSuchGpu(Unanswered):
    """The profile names a GPU that the host does not have."""


def questions(wanted: Deployment) -> tuple[Question[Any], ...]:
    """What must be known to name the profile's GPUs."""
    asked = [Question(GPUS, Call(operations.gpu.state), where="node")]
    if wanted.host.node is not None:
        asked.append(Question(INSIDE, Call(operations.gpu.state)))
    return tuple(asked)


def uses_gpus(wanted: Deployment) -> bool:
    """Whether the deployment is meant to run on GPUs at all."""
    return wanted.profile.build.target == "cuda" and wanted.profile.serve.gpus != []


def profile_gpus(wanted: Deployment, answers: Answers) -> list[Gpu]:
    """The profile's GPUs, none for a deployment without; raises `Unanswered` where a wanted one
    is not there or it is not known which are."""
    if not uses_gpus(wanted) or not answers[GPUS]["present"]:
        return []
    behind = wanted.host.node is not None
    seen = answers[GPUS]
    if not behind or seen["unknown"]:
        return _chosen(wanted, seen, "the node" if behind else "the host")
    inside = answers[INSIDE]
    if not inside["present"]:
        raise NoSuchGpu(f"the container has no GPU: {inside['reason']}")
    by_uuid = {gpu["uuid"]: gpu for gpu in seen["gpus"]}
    chosen = _chosen(wanted, inside, "the container")
    lost = [gpu["uuid"] for gpu in chosen if gpu["uuid"] not in by_uuid]
    if lost:
        reason = seen["unknown"] or seen["incomplete"]
        why = f": {reason}" if reason else ""
        raise Unanswered(f"the node does not know the container's GPU {', '.join(lost)}{why}")
    return [by_uuid[gpu["uuid"]] for gpu in chosen]


def _chosen(wanted: Deployment, state: GpuState, where: str) -> list[Gpu]:
    """The profile's GPUs of one answer. What is not known of others does not matter."""
    indices = wanted.profile.serve.gpus
    by_index = {gpu["index"]: gpu for gpu in state["gpus"]}
    missing = [str(index) for index in indices or () if index not in by_index]
    if state["unknown"]:
        raise Unanswered(f"the GPUs of {where} are not known: {state['unknown']}")
    incomplete = state["incomplete"]
    if incomplete and (indices is None or missing):
        which = f"GPU {', '.join(missing)}" if missing else "the list of GPUs"
        raise Unanswered(f"{which} of {where}, not all are known: {incomplete}")
    if missing:
        found = len(state["gpus"])
        raise NoSuchGpu(f"serve.gpus names GPU {', '.join(missing)}, the host has {found}")
    return list(state["gpus"]) if indices is None else [by_index[index] for index in indices]


def remarks(gpus: Iterable[Gpu]) -> Iterator[str]:
    """What nvidia-smi complains of about GPUs, and the facts that it does not give."""
    for gpu in gpus:
        yield from (f"GPU {gpu['index']}: {remark}" for remark in gpu.get("remarks") or ())
        given = gpu["unknown"].items()
        odd = [f"{field} is {value!r}" for field, value in given if value != NOT_GIVEN]
        if odd:
            yield f"GPU {gpu['index']}: nvidia-smi says {', '.join(odd)}"


def words(answers: Answers) -> str:
    """What is known of the GPUs, in a few words for evidence."""
    unknown = answers.unknown(GPUS)
    if unknown:
        return f"unknown: {unknown.reason}"
    state = answers[GPUS]
    if not state["present"]:
        return f"absent: {state['reason']}"
    listed = ", ".join(f"{gpu['index']}: {gpu['name']}" for gpu in state["gpus"])
    return f"unknown: {state['unknown']}" if state["unknown"] else listed
