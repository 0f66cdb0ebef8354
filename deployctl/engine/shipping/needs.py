"""What each host needs of what can be shared, and who produces it for whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployctl.agent.wire.shipping import Reach
from deployctl.agent.wire.stored import Model
from deployctl.config.build import SourceSettings
from deployctl.hosts.operations import environment
from deployctl.hosts.session import Call
from deployctl.steps.builds.environments import environment_key, is_git, sealed
from deployctl.steps.delivery import Delivery
from deployctl.steps.facts import GPUS, TOOLS
from deployctl.steps.fetch import wrong
from deployctl.steps.identity import digest
from deployctl.steps.interface import (
    ENVIRONMENT,
    MODELS,
    Answers,
    Deployment,
    Key,
    Question,
    Step,
    Unanswered,
)
from deployctl.steps.models import sources

REACH = Key[Reach]("share.reach")


@dataclass(frozen=True)
class Need:
    """An artifact that a host is to have: whether it has it, whether it can make or fetch it (None
    where that is not known), and why not. Equal keys are equal for all that they are used for."""

    key: str
    has: bool
    makes: bool | None
    why: str = ""


def needs(steps: Sequence[Step], wanted: Deployment, answers: Answers) -> dict[str, Need]:
    """What this host needs of what hosts can share, by artifact."""
    made = {product for step in steps if step.name not in wanted.skip for product in step.produces}
    found: dict[str, Need] = {}
    if ENVIRONMENT in made:
        built = _environment(wanted, answers)
        if built is not None:
            found[ENVIRONMENT] = built
    if MODELS in made:
        for role in sources.ROLES:
            model = _model(wanted, answers, role)
            if model is not None:
                found[role] = model
    return found


def able(
    own: Mapping[str, Need], steps: Sequence[Step], wanted: Deployment, answers: Answers
) -> dict[str, Need]:
    """The same needs of a host, which makes nothing for others where it is known already that it
    cannot do its part: a full disk, say, or a wrong driver."""
    for step in steps:
        if step.phase != "stage" or step.name in wanted.skip or step.produces:
            continue
        try:
            plan = step.plan(wanted, answers)
        except Unanswered:
            continue
        if plan.status == "blocked":
            return {
                name: need if need.has else replace(need, makes=False, why=plan.reason)
                for name, need in own.items()
            }
    return dict(own)


def _environment(wanted: Deployment, answers: Answers) -> Need | None:
    """None for one that starts from an environment of the host's own, or is not known yet."""
    build = wanted.profile.build
    tools = answers.get(TOOLS)
    if build.base is not None or not tools:
        return None
    try:
        key = environment_key(wanted, answers)
    except Unanswered:
        return None
    identity = {
        # The next generation after a damaged one is built from the same.
        "environment": key.partition("-")[0],
        "machine": tools["machine"],
        "libc": tools["libc"],
        "capabilities": tools["capabilities"] if build.target == "cuda" else None,
        "driver": _driver(answers) if build.torch_backend == "auto" else None,
    }
    makes, why = _makes(build.source, answers.get(REACH), bool(tools["git"]))
    return Need(digest(identity, 16), sealed(answers, key) is not None, makes, why)


def _makes(source: SourceSettings, reach: Reach | None, git: bool) -> tuple[bool | None, str]:
    """Whether a host can build from a source, and why not."""
    if is_git(source) and not git:
        return False, "git is not installed"
    if reach is None:
        return None, ""
    # What a repository's build requires is not known before it is fetched.
    return (reach["resolves"] if source.release else reach["answers"]), reach["why"]


def _driver(answers: Answers) -> Any:
    found = answers.get(GPUS)
    return found and found.get("driver")


def _model(wanted: Deployment, answers: Answers, role: Key[Model]) -> Need | None:
    """None for a model that comes with deployctl, or that lies on each host."""
    found, answer = sources.source(wanted, role), answers.get(role)
    if found is None or found.repo is None or answer is None or not answer["commit"]:
        return None
    error = answer["error"]
    has = not list(wrong(wanted, answers, role))
    why = str(error["message"]) if error else ""
    return Need(f"{found.repo}@{answer['commit']}", has, error is None, why)


def reach_question(wanted: Deployment, answers: Answers) -> Question[Reach] | None:
    """Whether a host that lacks the environment can make it; None where nothing is to be asked."""
    build, tools = wanted.profile.build, answers.get(TOOLS)
    need = _environment(wanted, answers)
    if need is None or need.has or need.makes is False:
        return None
    if tools is None:
        return None
    source = build.source
    if source.wheel is not None:
        return None
    wanted_line = f"{source.distribution}=={source.release}" if source.release else "setuptools"
    asked = Call(
        environment.reaches,
        uv=tools["uv"],
        requirement=wanted_line,
        env=dict(build.env),
    )
    return Question(REACH, asked)


def assign(found: Mapping[str, Mapping[str, Need]], way: str) -> dict[str, dict[str, Delivery]]:
    """Who produces and who receives what, for each host by artifact. `found` are the needs of the
    hosts, in their order.

    Whoever has an artifact already sends it. Otherwise the first host that can make it does, or the
    first of which that is not known. Where none can, each tries for itself and says why it cannot.
    """
    made: dict[str, dict[str, Delivery]] = {host: {} for host in found}
    wanted = {(artifact, need.key) for own in found.values() for artifact, need in own.items()}
    for artifact, key in sorted(wanted):
        own = {
            host: mine[artifact]
            for host, mine in found.items()
            if artifact in mine and mine[artifact].key == key
        }
        lacking = [host for host, need in own.items() if not need.has]
        producer = _producer(own)
        receivers = tuple(host for host in lacking if host != producer)
        if producer is None or not receivers:
            continue
        for host in (producer, *receivers):
            ready = own[producer].has
            made[host][artifact] = Delivery(artifact, key, producer, receivers, way, host, ready)
    return made


def _producer(own: Mapping[str, Need]) -> str | None:
    for fits in (
        lambda need: need.has,
        lambda need: need.makes is True,
        lambda need: need.makes is None,
    ):
        for host, need in own.items():
            if fits(need):
                return host
    return None
