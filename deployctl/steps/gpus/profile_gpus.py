"""Which GPUs are the profile's: `serve.gpus` counts as nvidia-smi does on the host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deployctl.steps.interface import Answers, Deployment, Question, Unanswered

Gpu = Mapping[str, Any]
"""One GPU of the answer of `gpu.state`, as the node numbers it where there is one."""

INSIDE = "gpus.inside"


class NoSuchGpu(Unanswered):
    """The profile names a GPU that the host does not have."""


def questions(wanted: Deployment) -> tuple[Question, ...]:
    """What must be known to name the profile's GPUs."""
    asked = [Question("gpus", "gpu.state", where="node")]
    if wanted.host.node is not None:
        asked.append(Question(INSIDE, "gpu.state"))
    return tuple(asked)


def uses_gpus(wanted: Deployment) -> bool:
    """Whether the deployment is meant to run on GPUs at all."""
    return wanted.profile.build.target == "cuda" and wanted.profile.serve.gpus != []


def profile_gpus(wanted: Deployment, answers: Answers) -> list[Gpu]:
    """The profile's GPUs, none for a deployment without; raises `Unanswered` where a wanted one
    is not there or it is not known which are."""
    if not uses_gpus(wanted) or not answers["gpus"]["present"]:
        return []
    seen = _whole(answers["gpus"], "the node" if wanted.host.node is not None else "the host")
    if wanted.host.node is None:
        return _chosen(wanted, seen)
    inside = answers[INSIDE]
    if not inside["present"]:
        raise NoSuchGpu(f"the container has no GPU: {inside['reason']}")
    by_uuid = {gpu["uuid"]: gpu for gpu in seen}
    chosen = _chosen(wanted, _whole(inside, "the container"))
    lost = [gpu["uuid"] for gpu in chosen if gpu["uuid"] not in by_uuid]
    if lost:
        raise Unanswered(f"the node does not know the container's GPU {', '.join(lost)}")
    return [by_uuid[gpu["uuid"]] for gpu in chosen]


def _whole(state: Mapping[str, Any], where: str) -> list[Gpu]:
    if state["unknown"]:
        raise Unanswered(f"the GPUs of {where} are not known: {state['unknown']}")
    return list(state["gpus"])


def _chosen(wanted: Deployment, gpus: list[Gpu]) -> list[Gpu]:
    indices = wanted.profile.serve.gpus
    if indices is None:
        return gpus
    by_index = {gpu["index"]: gpu for gpu in gpus}
    missing = [str(index) for index in indices if index not in by_index]
    if missing:
        raise NoSuchGpu(f"serve.gpus names GPU {', '.join(missing)}, the host has {len(gpus)}")
    return [by_index[index] for index in indices]


def words(answers: Answers) -> str:
    """What is known of the GPUs, in a few words for evidence."""
    unknown = answers.unknown("gpus")
    if unknown:
        return f"unknown: {unknown.reason}"
    state = answers["gpus"]
    if not state["present"]:
        return f"absent: {state['reason']}"
    listed = ", ".join(f"{gpu['index']}: {gpu['name']}" for gpu in state["gpus"])
    return f"unknown: {state['unknown']}" if state["unknown"] else listed
