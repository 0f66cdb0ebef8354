"""Runs a module of the standard library alone, sent by the controller, in a child process."""

import json
import subprocess
import sys
from typing import Any, Dict, List, Optional

from .interface import AgentError, Call

# The answer leaves through a descriptor of its own: what the module prints cannot spoil it.
_RUN = """\
import json, os, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
wanted = json.load(sys.stdin)
names = {"__name__": "probe", "__file__": "<probe>"}
exec(compile(wanted["source"], "<probe>", "exec"), names)
json.dump(names[wanted["function"]](**wanted["args"]), answer)
"""


def run(
    call: Call,
    source: str,
    function: str,
    args: Optional[Dict[str, Any]] = None,
    timeout: float = 60.0,
    paths: Optional[List[str]] = None,
) -> Any:
    """Call `function` of the module `source` with keyword `args`, of which those named in `paths`
    are host paths; returns its JSON value.

    Errors: `timeout` after that many seconds, `failed` with the child's last words.
    """
    ready = dict(args or {})
    for name in paths or []:
        ready[name] = call.path(ready[name])
    wanted = json.dumps({"source": source, "function": function, "args": ready})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-B", "-c", _RUN],
            input=wanted,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            env=call.environment(),
        )
    except subprocess.TimeoutExpired:
        raise AgentError("timeout", f"{function} took longer than {timeout:g} s") from None
    if done.returncode != 0:
        tail = done.stderr[-4000:]
        raise AgentError("failed", f"{function} ended with status {done.returncode}", tail)
    return json.loads(done.stdout)


OPERATIONS = (run,)
