"""Whether this host reaches the index that its builds install from."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from ..core import programs
from ..core.interface import Call

LIMIT = 20.0


def reaches(
    call: Call, uv: str, requirement: str, env: Optional[Dict[str, str]] = None
) -> Dict[str, Any]:
    """Let uv resolve one requirement by this host's own configuration, past its cache: `reaches`
    and, where it does not, `why` in uv's last words."""
    argv = [uv, "pip", "compile", "--no-deps", "--no-cache", "--quiet", "--no-header"]
    argv += ["--python", sys.executable, "-"]
    limits = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "10"}
    answer = programs.ask(call, argv, LIMIT, dict(env or {}, **limits), requirement + "\n")
    if answer.status == 0:
        return {"reaches": True, "why": ""}
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    silent = "no answer within %g s" % LIMIT
    return {"reaches": False, "why": lines[-1] if lines and answer.status is not None else silent}
