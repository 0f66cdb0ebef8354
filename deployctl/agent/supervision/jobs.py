"""Long commands that outlive the connection: started once, followed by anyone, ended as a whole.

States: none, running, done, failed, stalled, stopped, and lost, for a job whose supervisor is gone
without an outcome (killed, or the machine was started again).
"""

import codecs
import os
import re
from functools import partial
from typing import Any, Dict, List, Optional, Tuple

from ..core import inheritance
from ..core.interface import AgentError, Call
from ..core.regular_files import read_piece
from ..processes.processes import stop as stop_processes
from ..processes.processes import stop_all
from ..wire.jobs import JobLogPart, JobStarted, JobState
from .job_files import JobFiles, members
from .launching import launch
from .supervisor import GRACE

JOBS = "@/jobs"
PIECE = 65536
POLL = 0.1
_COUNTER = re.compile(r"^[ \t]*\[(\d+)/(\d+)\]", re.MULTILINE)


def start(
    call: Call,
    id: str,
    steps: List[Dict[str, Any]],
    stall: float = 900.0,
    limit: Optional[float] = None,
    label: Optional[Dict[str, Any]] = None,
) -> JobStarted:
    """Start a job, or attach to the one of this id that runs (`started` is then false).

    A step is ``{"phase", "argv", "env", "secrets", "cwd", "optional", "when", "lock"}``; `when` is
    ``{"glob", "present"}``; of the steps of all jobs that name the same file as `lock`, one runs
    at a time. Paths that begin with `@/` lie under the root, in argv, env, cwd, lock and globs; an
    argument ``{"glob": …}`` becomes the one file that matches; `@agent` as the first argument is
    this agent. `label` is kept and handed back by `state`. Seconds.
    """
    files = JobFiles.of(call.path(JOBS), id)
    os.makedirs(files.directory, mode=0o700, exist_ok=True)
    starting = files.take("start.lock")
    try:
        started = not _runs(files)
        if started:
            _end_remains(files)
            files.forget()
            token = os.urandom(16).hex()
            ready = [_prepared(call, step) for step in steps]
            files.describe(
                {
                    "token": token,
                    "label": label or {},
                    "stall": stall,
                    "limit": limit,
                    "steps": [_public(step) for step in ready],
                }
            )
            spec = {"token": token, "stall": stall, "limit": limit, "steps": ready}
            launch(call, files, dict(spec, umask=call.umask))
    finally:
        os.close(starting)
    return {**state(call, id), "started": started}


def state(call: Call, id: str) -> JobState:
    """How a job stands. `scope` is its control group's unit; where it has none, `unscoped` says
    why."""
    files = JobFiles.of(call.path(JOBS), id)
    answer, recorded = _standing(files)
    if recorded is None:
        return answer
    # A supervisor that has recorded its outcome is about to end: no work is in progress.
    leaving = recorded["pid"] if "outcome" in recorded else None
    answer["members"] = [stat.pid for stat in members(recorded) if stat.pid != leaving]
    answer["label"] = (files.description() or {}).get("label", {})
    try:
        beat = os.path.getmtime(files.heartbeat)
    except FileNotFoundError:
        beat = recorded["started"]
    answer["seconds"] = round(recorded.get("ended", beat) - recorded["started"], 3)
    return answer


def _standing(files: JobFiles) -> Tuple[JobState, Optional[Dict[str, Any]]]:
    """What the job's own files say, and its recorded state; cheap enough to ask often."""
    # The lock is looked at first: an outcome that is written in between is then still found.
    alive = files.alive()
    recorded = files.recorded()
    answer: JobState = {"id": files.id, "state": "none", "log": files.log, "log_size": 0}
    if recorded is None:
        return answer, None
    answer = {
        "id": files.id,
        "state": recorded.get("outcome") or ("running" if alive else "lost"),
        "log": files.log,
        "log_size": _size(files.log),
        "phase": recorded["phase"],
        "rc": recorded.get("rc"),
        "why": recorded.get("why", ""),
        "pid": recorded["pid"],
        "start": recorded["start"],
        "started_at": recorded["started"],
        "scope": recorded.get("scope"),
        "unscoped": recorded.get("unscoped", ""),
        "steps": recorded["steps"],
    }
    return answer, recorded


def follow(call: Call, id: str, offset: int = 0) -> JobState:
    """Emit the log from `offset` on as ``{"text", "offset"}``, each new ``{"phase"}`` and ninja's
    counters as ``{"fraction", "detail"}`` until the job has ended; returns its final state."""
    files = JobFiles.of(call.path(JOBS), id)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    phase = ""
    while True:
        now, _ = _standing(files)
        if now.get("phase", "") != phase:
            phase = now["phase"]
            call.emit({"phase": phase})
        # A log may grow faster than it is carried: whoever gives up is heard all the same.
        while not call.cancelled.is_set():
            piece = read_piece(files.log, offset, PIECE)
            if not piece.data:
                break
            offset = piece.begin + len(piece.data)
            text = decoder.decode(piece.data)
            call.emit({"text": text, "offset": offset})
            _emit_counter(call, text)
        call.beat()
        if now["state"] != "running" or call.cancelled.wait(POLL):
            return state(call, id)


def log(call: Call, id: str, offset: int = 0, limit: int = PIECE) -> JobLogPart:
    """A part of the log; a negative `offset` counts from its end."""
    files = JobFiles.of(call.path(JOBS), id)
    piece = read_piece(files.log, offset, limit)
    text = piece.data.decode("utf-8", "replace")
    return {"text": text, "offset": piece.begin + len(piece.data), "size": piece.size}


def stop(call: Call, id: str, grace: float = GRACE) -> JobState:
    """End a job and everything it started; returns its state. Nothing happens to one that has
    ended, except that processes it left behind are ended too."""
    files = JobFiles.of(call.path(JOBS), id)
    recorded = files.recorded()
    if recorded is not None:
        asked = files.alive()
        if asked:
            _ask_supervisor(recorded, grace)
        ended = stop_all(partial(members, recorded), grace)
        latest = files.recorded()
        if latest is not None and "outcome" not in latest and (asked or ended.gone):
            files.record(dict(latest, outcome="stopped", why="stopped on request", rc=None))
    return state(call, id)


def listing(call: Call) -> List[JobState]:
    """Every job of this host and how it stands."""
    directory = call.path(JOBS)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    # Hidden ones are on their way out.
    return [state(call, name) for name in names if not name.startswith(".")]


def _ask_supervisor(recorded: Dict[str, Any], grace: float) -> None:
    supervisor = [stat for stat in members(recorded) if stat.pid == recorded["pid"]]
    # It ends its members first, with a grace of its own, and then says so on disk.
    stop_processes(supervisor, 2 * GRACE + grace)


def _runs(files: JobFiles) -> bool:
    # A supervisor that has recorded its outcome lives on for a moment; it is among the remains.
    return files.alive() and "outcome" not in (files.recorded() or {})


def _end_remains(files: JobFiles) -> None:
    recorded = files.recorded()
    if recorded is None:
        return
    left = stop_all(partial(members, recorded), GRACE).left
    if left:
        raise AgentError("remains", f"processes of the last run do not end: {left}", left)


def _prepared(call: Call, step: Dict[str, Any]) -> Dict[str, Any]:
    """A step with every path in place and its whole environment."""

    def place(value: Any) -> Any:
        if isinstance(value, dict):
            return {"glob": call.pattern(value["glob"])}
        return call.placed(value)

    when = step.get("when")
    own = step["argv"][:1] == ["@agent"]
    allowed = inheritance.FETCH if own else inheritance.BUILD
    wanted = {name: place(value) for name, value in (step.get("env") or {}).items()}
    return {
        "phase": step["phase"],
        "argv": [place(argument) for argument in step["argv"]],
        "env": dict(inheritance.kept(call.environment(), allowed), **wanted),
        "wanted": wanted,
        "secrets": step.get("secrets") or {},
        "cwd": place(step.get("cwd") or "@"),
        "optional": bool(step.get("optional")),
        "when": when and dict(when, glob=call.pattern(when["glob"])),
        "lock": call.path(step["lock"]) if step.get("lock") else None,
    }


def _public(step: Dict[str, Any]) -> Dict[str, Any]:
    kept = {name: step[name] for name in ("phase", "argv", "cwd", "optional", "when", "lock")}
    return dict(kept, env=step["wanted"], secrets=sorted(step["secrets"]))


def _size(path: str) -> int:
    """Bytes of a log; 0 where there is none, as while its job is being restarted."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _emit_counter(call: Call, text: str) -> None:
    counters = _COUNTER.findall(text)
    if counters:
        done, total = (int(number) for number in counters[-1])
        if 0 < total >= done:
            call.emit({"fraction": done / total, "detail": f"{done} of {total}"})


OPERATIONS = (start, state, follow, log, stop, listing)
