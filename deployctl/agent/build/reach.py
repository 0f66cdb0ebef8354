"""Whether this host reaches the index that its builds install from."""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, Mapping, Optional

from ..core import programs
from ..core.interface import Call
from ..wire.shipping import Reach

LIMIT = 20.0
UNRESOLVED = "No solution found"
"""What uv says once it knows that the index has no such distribution."""
PYPI = "https://pypi.org/simple"
CONFIGURED = ("~/.config/uv/uv.toml", "/etc/uv/uv.toml")
"""Where uv's own configuration may name another index (uv's reference, Configuration files)."""
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:==(\S+))?")


def reaches(
    call: Call, uv: Optional[str], requirement: str, env: Optional[Dict[str, str]] = None
) -> Reach:
    """Let uv resolve one requirement by this host's own configuration, past its cache: whether it
    `resolves`, whether any index `answers`, and `why` not in uv's last words. Where uv is yet to be
    sent, the index itself is asked; both are None where uv's configuration may name another one."""
    if uv is None:
        return _by_index(call, requirement, dict(env or {}))
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


def named_index(env: Mapping[str, str]) -> Optional[str]:
    """The index that uv's variables name; None where they name none."""
    return env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")


def _by_index(call: Call, requirement: str, env: Dict[str, str]) -> Reach:
    """One project's page of the simple repository API (PEP 503), which names its files."""
    # Where nothing is asked, an agent's start does without it.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    index = named_index({**call.environment(), **env})
    if index is None and any(os.path.exists(call.path(path)) for path in CONFIGURED):
        return {"resolves": None, "answers": None, "why": ""}
    match = _REQUIREMENT.match(requirement)
    name, version = match.groups() if match else (requirement, None)
    page = (index or PYPI).rstrip("/") + "/" + re.sub(r"[-_.]+", "-", name).lower() + "/"
    try:
        with urlopen(page, timeout=LIMIT / 2) as answer:
            text = answer.read(64 << 20).decode("utf-8", "replace")
    except HTTPError as error:
        return {"resolves": False, "answers": True, "why": "HTTP %d for %s" % (error.code, name)}
    except (OSError, ValueError, HTTPException) as error:
        return {"resolves": False, "answers": False, "why": str(error)}
    end = re.escape(version) + r"(-|\.tar|\.zip)" if version else ""
    file = re.sub(r"[-_.]+", "[-_.]+", name) + "-" + end
    if re.search(file, text, re.IGNORECASE):
        return {"resolves": True, "answers": True, "why": ""}
    return {"resolves": False, "answers": True, "why": "the index has no " + requirement}
