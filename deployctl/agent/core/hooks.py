"""A command of the user's own, run on this host around a step."""

from __future__ import annotations

from typing import Dict, List, Optional

from ..wire.jobs import HookAnswer
from . import inheritance, programs
from .interface import AgentError, Call

KEPT = 4000


def run(
    call: Call,
    argv: List[str],
    text: str = "",
    timeout: float = 60.0,
    env: Optional[Dict[str, str]] = None,
) -> HookAnswer:
    """Run a command with `text` on its standard input: `rc` (None where it had to be ended),
    `output` and `errors` (the last 4000 characters). Errors: `not-found` where there is no such
    program, `not-started` where it cannot be started."""
    program = programs.find(call, argv[0])
    if program is None:
        raise AgentError("not-found", "there is no program %s on this host" % argv[0])
    try:
        allowed = inheritance.BUILD
        answer = programs.ask(call, [program, *argv[1:]], timeout, env, text, allowed=allowed)
    except OSError as error:
        raise AgentError("not-started", "%s cannot be started: %s" % (program, error)) from error
    return {
        "rc": answer.status,
        "output": answer.stdout[-KEPT:],
        "errors": answer.stderr[-KEPT:],
    }


OPERATIONS = (run,)
