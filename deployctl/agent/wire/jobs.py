"""What the agent says about jobs, and about the user's own commands."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class JobStep(TypedDict):
    """A step that has ended."""

    phase: str
    rc: int
    seconds: float


class JobFound(TypedDict):
    """What is reported of every job, whether there is one of this name or not."""

    id: str
    state: str
    log: str
    log_size: int


class JobState(JobFound, total=False):
    """A job that was started has the rest, too; `jobs.state` describes it."""

    phase: str
    rc: Optional[int]
    why: str
    pid: int
    start: int
    started_at: float
    scope: Optional[str]
    unscoped: str
    steps: List[JobStep]
    members: List[int]
    label: Dict[str, Any]
    seconds: float


class JobStarted(JobState):
    """The same, and whether it was started now; false for one that ran already."""

    started: bool


class JobLogPart(TypedDict):
    """A part of a job's log; `offset` is where to go on."""

    text: str
    offset: int
    size: int


class HookAnswer(TypedDict):
    """How a command ended, None where it had to be ended, and the end of what it printed."""

    rc: Optional[int]
    output: str
    errors: str
