"""Whether this host reaches the index that its builds install from."""

from __future__ import annotations

import sys
from typing import Dict, Optional

from ..core import programs
from ..core.interface import Call
from ..wire.shipping import Reach

LIMIT = 20.0
UNRESOLVED = "No solution found"
"""What uv says once it knows that the index has no such distribution."""


def reaches(call: Call, uv: str, requirement: str, env: Optional[Dict[str, str]] = None) -> Reach:
    """Let uv resolve one requirement by this host's own configuration, past its cache: whether it
    `resolves`, whether any index `answers`, and `why` not in uv's last words."""
    argv = [uv, "pip", "compile", "--no-deps", "--no-cache", "--quiet", "--no-header"]
    argv += ["--python", sys.executable, "-"]
    limits = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
    answer = programs.ask(call, argv, LIMIT, dict(env or {}, **limits), requirement + "\n")
    if answer.status == 0:
        return {"resolves": True, "answers": True, "why": ""}
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    silent = "no answer within %g s" % LIMIT
    why = lines[-1] if lines and answer.status is not None else silent
    return {"resolves": False, "answers": UNRESOLVED in answer.stderr, "why": why}
