"""What the built vLLM of a release knows, asked on its host, for the steps that depend on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from deployctl.errors import RemoteError
from deployctl.hosts.operations import modules
from deployctl.hosts.session import Session
from deployctl.steps.builds.environments import BUILD, environment_key, sealed
from deployctl.steps.interface import Answers, Context, Deployment, Unanswered
from deployctl.vllm.serving import knowledge as vllm_knowledge
from deployctl.vllm.serving.knowledge import Knowledge


def knowledge(context: Context) -> Knowledge:
    """Read from the installed source; only the release's version where that cannot be read."""
    release = context.wanted.profile.build.source.release
    return installed(context.session, context.release.environment, release, context.log)


def sealed_knowledge(wanted: Deployment, answers: Answers) -> Knowledge:
    """The same before anything is asked: from the seal of the wanted environment, and from the
    release's version where nothing is built yet."""
    release = wanted.profile.build.source.release
    try:
        seal = sealed(answers, environment_key(wanted, answers)) or {}
    except Unanswered:
        seal = {}
    evidence = seal.get("evidence") or {}
    version = (evidence.get(BUILD) or {}).get("version_installed")
    told = seal.get("knowledge") or {}
    return vllm_knowledge.read(release, {"version": version, **told})


def probe(session: Session, environment: str) -> dict[str, Any]:
    """The probe's answer about an environment of a host; raises `RemoteError`."""
    answer: dict[str, Any] = session.call(
        modules.run,
        source=vllm_knowledge.probe_source(),
        function="know",
        args={"environment": environment},
        paths=["environment"],
    )
    return answer


def installed(
    session: Session, environment: str, release: str | None, log: Callable[[str], None]
) -> Knowledge:
    """What the vLLM in an environment of a host knows."""
    try:
        answer: dict[str, Any] | None = probe(session, environment)
    except RemoteError as error:
        log(f"what this vLLM knows could not be read: {error.message}")
        answer = None
    return vllm_knowledge.read(release, answer)


def sha256(text: str) -> str:
    """The digest under which evidence names a text."""
    return hashlib.sha256(text.encode()).hexdigest()
