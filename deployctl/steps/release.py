"""The release that is wanted: its id follows from everything that makes it what it is."""

from __future__ import annotations

from typing import Any

from deployctl.steps.build import BuildStep, environment_key
from deployctl.steps.identity import ReleasePaths, digest
from deployctl.steps.interface import Answers, Deployment, Question
from deployctl.steps.models.sources import ROLES, drafter_identity, model_identity, question

# How long to wait, how to stop and how to watch do not change what is served.
NOT_SERVED = {"ready", "stop_grace", "liveness"}
NOT_GROUPED = {"rendezvous", "clock_skew"}


def identity_questions(wanted: Deployment) -> list[Question[Any]]:
    """What must be known to tell which release is wanted."""
    models = [question(wanted, role) for role in ROLES]
    return [*BuildStep().questions(wanted), *(q for q in models if q is not None)]


def release_identity(wanted: Deployment, answers: Answers) -> dict[str, Any]:
    """Everything a release is built from, as data; raises `Unanswered` where a part is unknown."""
    profile = wanted.profile
    drafter = profile.drafter
    found: dict[str, Any] = {
        "environment": environment_key(wanted, answers),
        "model": model_identity(wanted, answers),
        "served_name": profile.model.served_name,
        "drafter": drafter_identity(wanted, answers),
        "speculative": drafter and drafter.model_dump(exclude={"model", "config", "warn_only"}),
        # The same release on each replica of a host, whatever its port and GPUs.
        "serve": profile.written_serve.model_dump(exclude=NOT_SERVED),
    }
    if profile.serve.gpus != profile.written_serve.gpus:
        found["gpus_each"] = len(profile.serve.gpus or ())
    if profile.group is not None:
        engine = profile.group.engine
        unused = {"ray"} if engine == "nodes" else {"master_port"}
        found["group"] = {
            **profile.group.model_dump(exclude=NOT_GROUPED | unused),
            "hosts": [
                (host.member_address, host.interface) for host in profile.grouped(wanted.host.name)
            ],
        }
    return found


def release_paths(wanted: Deployment, answers: Answers) -> ReleasePaths:
    """Where the wanted release lies; raises `Unanswered` where its id cannot be known yet."""
    if wanted.pinned is not None:
        return wanted.pinned
    identity = release_identity(wanted, answers)
    return ReleasePaths(
        wanted.profile.name, digest(identity), str(identity["environment"]), wanted.unit
    )
