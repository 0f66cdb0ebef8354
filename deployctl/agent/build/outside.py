"""Whether this host reaches what a deployment needs of the network, and where it ends if not."""

from __future__ import annotations

import os
import re
from typing import Dict, Optional
from urllib.parse import urlsplit

from ..core import programs
from ..core.interface import AgentError, Call
from ..wire.machine import Outside
from . import environment
from .git import Git, without_credentials
from .reach import PYPI, named_index, reaches

PROBE = "pip"
"""A distribution that every index has."""
LIMIT = 20.0
STAGES = (
    ("proxy", r"proxy|tunnel|\b407\b"),
    ("certificate", r"certificate|self.signed|unknownissuer|unable to get local issuer|SSL"),
    ("name", r"resolve|dns error|lookup|name or service not known|name resolution"),
    (
        "connect",
        r"refused|timed out|no answer within|unreachable|no route|reset|couldn't connect"
        r"|failed to connect|tcp connect|error sending request",
    ),
)
"""Where a connection ends, by the words of uv, git and Python; the first that fits."""


def stage(words: str, through: Optional[str] = None) -> str:
    """Where a connection ended, from what a program printed. What cannot be connected to, with a
    proxy between, is the proxy."""
    for name, pattern in STAGES:
        if re.search(pattern, words, re.I):
            return "proxy" if through and name in ("connect", "name") else name
    return "answer"


def index(call: Call, env: Optional[Dict[str, str]] = None) -> Outside:
    """The index that builds install from, asked by uv with this host's own configuration."""
    known = dict(os.environ, **(env or {}))
    url = named_index(known) or PYPI
    uv = environment.tools(call)["uv"]
    if uv is None:
        return _outside(url, "program", "uv is not installed: `build` brings it")
    found = reaches(call, uv, PROBE, env)
    if found["resolves"] or found["answers"]:
        return _outside(url, "ok", "")
    through = proxy(url, known)
    return _outside(url, stage(found["why"], through), found["why"], through)


def repository(call: Call, url: str) -> Outside:
    """A git repository, asked for its HEAD."""
    program = programs.find(call, "git")
    if program is None:
        return _outside(url, "program", "git is not installed")
    try:
        Git(program).run("ls-remote", "--", url, "HEAD", timeout=LIMIT)
    except AgentError as error:
        through = proxy(url, dict(os.environ))
        words = f"{error} {error.detail or ''}"
        return _outside(url, stage(words, through), str(error), through)
    return _outside(url, "ok", "")


def proxy(url: str, env: Dict[str, str]) -> Optional[str]:
    """The proxy between here and an URL, by the variables that curl, git and uv read."""
    parts = urlsplit(url)
    names = ("https_proxy", "HTTPS_PROXY") if parts.scheme == "https" else ("http_proxy",)
    found = next((env[name] for name in (*names, "all_proxy", "ALL_PROXY") if env.get(name)), None)
    excepted = (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")
    host = parts.hostname or ""
    if found is None or "*" in excepted:
        return None
    if any(one.strip() and host.endswith(one.strip().lstrip(".")) for one in excepted):
        return None
    return without_credentials(found)


def _outside(url: str, stage: str, why: str, proxy: Optional[str] = None) -> Outside:
    return {
        "url": without_credentials(url),
        "stage": stage,
        "why": without_credentials(why),
        "proxy": proxy,
    }


OPERATIONS = (index, repository)
