"""Starts a job's supervisor where the end of whoever asked for it does not reach.

A session of its own outlives the agent and its connection, but not the control group that the agent
is in: logind ends that of a login (KillUserProcesses=yes), systemd that of a service. Where systemd
can be asked, the supervisor is therefore started in a transient scope.
"""

import json
import os
import shutil
import subprocess
import threading
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

from ..core import inheritance
from ..core.archive import agent_program
from ..core.interface import AgentError, Call
from . import systemd
from .job_files import JobFiles

SCOPE = (
    *("--scope", "--collect", "--quiet", "--property=TasksMax=infinity"),
    # From systemd 253 on, a scope ends as a whole when one process runs out of memory: a build
    # would read `stopped`, not say which compiler was killed. One that delegates goes on, and
    # unlike OOMPolicy= every version knows the word.
    "--property=Delegate=pids",
)


def launch(call: Call, files: JobFiles, spec: Dict[str, Any]) -> None:
    """Start the supervisor of a job; it holds the job's lock when this returns. The job's state
    names the `scope`, or says in `unscoped` why it has none. Error `not-started`."""
    argv = [*agent_program(), "supervise", files.directory]
    program, unscoped = _systemd_run(call)
    if program is not None:
        scope = scope_name(files.id, spec["token"])
        scoped = [program, *SCOPE, f"--unit={scope}", "--", *argv]
        refused = _begin(scoped, dict(spec, scope=scope, unscoped=""))
        if refused is None:
            return
        if files.recorded() is not None:
            raise _not_started(refused)
        unscoped = f"systemd-run: {refused}"
    failed = _begin(argv, dict(spec, scope=None, unscoped=unscoped))
    if failed is not None:
        raise _not_started(failed)


def scope_name(id: str, token: str) -> str:
    """The scope of one run: an earlier run's of the same job may still be on its way out."""
    return f"deployctl-job-{id}-{token[:8]}.scope"


def _systemd_run(call: Call) -> Tuple[Optional[str], str]:
    """The program, or None and why no scope can be made with it."""
    obstacle = systemd.usable()
    if obstacle is not None:
        return None, obstacle
    program = shutil.which("systemd-run", path=call.environment()["PATH"])
    return program, "" if program else "there is no systemd-run"


def _begin(argv: List[str], spec: Dict[str, Any]) -> Optional[str]:
    """None once the supervisor says that it is ready; else its last words, when it is gone."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A step may read its supervisor's environment.
        env=inheritance.kept(os.environ, inheritance.BUILD),
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    # One that ended before it read all of this has printed why on its standard error.
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(spec).encode())
    with process.stdout as pipe:
        ready = pipe.readline() == b"ready\n"
    words = b"" if ready else process.stderr.read()
    process.stderr.close()
    if ready:
        # Reaps it when it ends before the agent does.
        threading.Thread(target=process.wait, daemon=True).start()
        return None
    process.wait()
    return words.decode("utf-8", "replace").strip()[-2000:]


def _not_started(words: str) -> AgentError:
    return AgentError("not-started", "the job's supervisor did not start", words)
