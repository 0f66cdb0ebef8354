"""Whether a host's GPUs can do what is asked of them, and whether processes there reach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from deployctl.agent.wire.gpus import Cuda, Passthrough
from deployctl.hosts import operations
from deployctl.hosts.session import Call
from deployctl.steps.facts import GPUS
from deployctl.steps.gpus import compatibility, passthrough, profile_gpus
from deployctl.steps.gpus.finding import Finding
from deployctl.steps.interface import Answers, Deployment, Key, Question, Unanswered

HOST = Key[Passthrough]("preflight.host")
NODE = Key[Passthrough]("preflight.node")
CUDA = Key[Cuda]("preflight.cuda")


def questions(wanted: Deployment) -> list[Question[Any]]:
    """What must be known of the way to the GPUs; nothing where none are used."""
    if not profile_gpus.uses_gpus(wanted):
        return []
    cuda = Call(operations.passthrough.cuda, indices=wanted.profile.serve.gpus)
    look = Question(HOST, Call(operations.passthrough.look))
    return [look, Question(CUDA, cuda), *_node_questions(wanted)]


def _node_questions(wanted: Deployment) -> list[Question[Any]]:
    container = wanted.host.container
    if wanted.host.node is None:
        return []
    look = operations.passthrough.look
    call = Call(look) if container is None else Call(look, container=container.id)
    if container is not None and container.lxc_path:
        call = Call(look, container=container.id, lxc_path=container.lxc_path)
    return [Question(NODE, call, where="node")]


def findings(wanted: Deployment, answers: Answers, each: int) -> Iterator[Finding]:
    """Every finding, in the order in which people read them; `each` is the number of processes that
    a group has on each host. Pure."""
    yield _present(wanted, answers, each)
    yield from _remarks(wanted, answers)
    if profile_gpus.uses_gpus(wanted):
        yield from _passthrough(wanted, answers, each)


def _present(wanted: Deployment, answers: Answers, each: int) -> Finding:
    """GPUs where the deployment runs on them; their absence is fine for any other."""
    if not profile_gpus.uses_gpus(wanted):
        return Finding("gpu", "ok", profile_gpus.words(answers), "none")
    needed = "all of the host's" if wanted.profile.serve.gpus is None else wanted.profile.serve.gpus
    try:
        present = answers[GPUS]["present"]
        found = [
            f"{gpu['index']}: {gpu['name']}" for gpu in profile_gpus.profile_gpus(wanted, answers)
        ]
    except profile_gpus.NoSuchGpu as error:
        return Finding("gpu", "failed", None, needed, str(error.args[0]))
    except Unanswered as error:
        return Finding("gpu", "unknown", None, needed, str(error.args[0]))
    if not present or not found:
        words = profile_gpus.words(answers)
        say = f"no GPU, and build.target is cuda ({words})"
        return Finding("gpu", "failed", words, needed, say)
    if wanted.member is not None and len(found) < each:
        say = f"the group has {each} processes on each host, and this one has {len(found)} GPUs"
        return Finding("gpu", "failed", found, each, say)
    return Finding("gpu", "ok", found, needed)


def _remarks(wanted: Deployment, answers: Answers) -> Iterator[Finding]:
    """What nvidia-smi complains of about the profile's GPUs: they are known all the same."""
    with suppress(Unanswered):
        for remark in profile_gpus.remarks(profile_gpus.profile_gpus(wanted, answers)):
            yield Finding("gpu", "warning", remark, None, remark)


def _minors(wanted: Deployment, answers: Answers) -> frozenset[int] | None:
    """Which /dev/nvidiaN are the profile's, where that is known."""
    try:
        found = profile_gpus.profile_gpus(wanted, answers)
    except Unanswered:
        return None
    minors = frozenset(minor for gpu in found if (minor := gpu.get("minor")) is not None)
    return minors if len(minors) == len(found) else None


def _passthrough(wanted: Deployment, answers: Answers, each: int) -> Iterator[Finding]:
    keys: list[Key[Any]] = [HOST, CUDA, *([NODE] if wanted.host.node is not None else [])]
    for key in keys:
        unknown = answers.unknown(key)
        if unknown:
            yield Finding("passthrough", "unknown", None, "readable", f"{key}: {unknown.reason}")
            return
    host, behind = answers[HOST], wanted.host.node is not None
    node = answers[NODE] if behind else host
    yield from passthrough.driver(node)
    if not passthrough.has_driver(node):
        return
    yield from passthrough.nodes(node, "node" if behind else "host")
    if behind:
        if wanted.host.container is not None:
            yield from passthrough.conf(node, _minors(wanted, answers), host)
        yield from passthrough.nodes(host, "container")
    yield from passthrough.versions(node, host)
    yield from compatibility.findings(wanted, answers, host["module"] or node["module"])
    yield from passthrough.shm(host, each, behind)
    conf = node["conf"]
    conf_path = conf["path"] if conf else "the container's conf"
    yield from passthrough.cuda(answers[CUDA], conf_path)
    if answers.unknown(GPUS) is None:
        yield from passthrough.persistence(answers[GPUS])
