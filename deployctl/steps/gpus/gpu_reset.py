"""When a GPU may be reset: asked for, on the node, with no client at all. Pure."""

from __future__ import annotations

from deployctl.agent.wire.gpus import Links
from deployctl.hosts import operations
from deployctl.hosts.session import Call
from deployctl.steps.gpus.gpu_snapshot import HOLDERS, GpuSnapshot, in_words
from deployctl.steps.gpus.holders import Process
from deployctl.steps.interface import Answers, Deployment, Key, Question

LINKS = Key[Links]("clean.links")


def question() -> Question[Links]:
    """What must be known beside who is there."""
    return Question(LINKS, Call(operations.gpu.links), where="node")


def refusal(
    wanted: Deployment, answers: Answers, now: GpuSnapshot, leaving: frozenset[int] = frozenset()
) -> str | None:
    """Why the profile's GPUs must not be reset, None where they may be.

    `leaving` are PIDs that will have been stopped by then.
    """
    if not now.gpus:
        return "the profile has no GPU here"
    contained = answers[HOLDERS]["contained"]
    if contained:
        return f"the host is a container ({contained}): name its node in the host file"
    if now.blind:
        return f"whether anybody uses the GPUs is not known: {now.blind[0]}"
    clients = [v for v in now.verdicts if _is_client(v.process) and v.process.pid not in leaving]
    if clients:
        return f"in use by {'; '.join(in_words(v) for v in clients)}"
    for gpu in now.gpus:
        if gpu["mig"] is not False:
            state = "divided by MIG" if gpu["mig"] else "of unknown MIG mode"
            return f"GPU {gpu['index']} is {state}"
    return _peers(answers, now)


def _is_client(process: Process) -> bool:
    return not process.zombie and bool(process.devices or process.gpus)


def _peers(answers: Answers, now: GpuSnapshot) -> str | None:
    """GPUs joined by NVLink are reset together or not at all."""
    links = answers[LINKS]
    if links["unknown"]:
        return f"its NVLink peers are not known: {links['unknown']}"
    own = {gpu["index"] for gpu in now.gpus}
    for index in sorted(own):
        if str(index) not in links["peers"]:
            return f"the NVLink peers of GPU {index} are not known"
        others = sorted(set(links["peers"][str(index)]) - own)
        if others:
            return f"GPU {index} is joined by NVLink to {others}, which are not the profile's"
    return None
