"""Run a job of the agent and show how it goes; a job of the same id that runs is attached to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deployctl.agent.wire.jobs import JobState
from deployctl.hosts.operations import jobs
from deployctl.hosts.session import Call, Session
from deployctl.steps.interface import Context

LOG_LIMIT = 4 << 20


def run(
    context: Context,
    id: str,
    steps: Sequence[Mapping[str, Any]],
    *,
    stall: float,
    limit: float | None,
    label: Mapping[str, Any],
) -> JobState:
    """Start or attach, follow to the end, and return the job's final state."""
    session = context.session
    begun = session.call(
        jobs.start,
        id=id,
        steps=[dict(step) for step in steps],
        stall=stall,
        limit=limit,
        label=dict(label),
    )
    if not begun["started"]:
        context.log(f"job {id} is running already, attached to it")
    phase = ""

    def show(event: dict[str, Any]) -> None:
        nonlocal phase
        if "phase" in event:
            phase = event["phase"]
            context.progress(phase)
        elif "fraction" in event:
            context.progress(phase, event.get("detail", ""), event["fraction"])

    return session.follow(Call(jobs.follow, id=id), show)


def log(session: Session, id: str) -> str:
    """A job's log, or its last part where it is very long."""
    pieces: list[str] = []
    offset = -LOG_LIMIT
    while True:
        piece = session.call(jobs.log, id=id, offset=offset)
        pieces.append(piece["text"])
        if piece["offset"] >= piece["size"] or not piece["text"]:
            return "".join(pieces)
        offset = piece["offset"]
