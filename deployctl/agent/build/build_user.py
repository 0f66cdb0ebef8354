"""As whom a build runs on this host."""

from __future__ import annotations

import os
import pwd
from typing import Optional

from ..core import programs
from ..core.archive import agent_program
from ..core.interface import AgentError, Call
from ..wire.builds import BuildUser
from .confinement import DEFAULT_USER, maker


def build_user(call: Call, user: Optional[str] = None) -> BuildUser:
    """`user`: whom a build is confined to, or None where it runs as the agent's own user, with
    `why`. Without `user` that is `deployctl-build`, where we are root and the host lets us.
    `agent` is the name of the agent's own user. Errors: `no-user`, `not-confined` for a named user
    that is missing here, or to whom nothing can be confined."""
    agent = _own_name()
    found: BuildUser = {"user": None, "why": "", "agent": agent}
    if user is not None and user in (agent, "root") and _uid(user) == os.geteuid():
        return {**found, "why": "build.user is %s" % user}
    why = _obstacle(call, user or DEFAULT_USER)
    if not why:
        return {**found, "user": user or DEFAULT_USER}
    if user is not None:
        raise AgentError("not-confined", "a build cannot run as %s: %s" % (user, why))
    return {**found, "why": why}


def _obstacle(call: Call, user: str) -> str:
    """Why nothing can be confined to this user; empty where it can."""
    if os.geteuid() != 0:
        return "the agent is not root"
    uid = _uid(user)
    if uid == 0:
        return "%s is root" % user
    if uid is None and user != DEFAULT_USER:
        return "there is no such user on this host"
    if uid is None and not (maker() and os.access("/etc/passwd", os.W_OK)):
        return "there is no user %s, and none can be added" % user
    answer = programs.ask(call, [*agent_program(), "chore", "probe"], 20)
    if answer.status == 0:
        return ""
    return answer.stderr.strip()[-500:] or "it takes too long to confine it"


def _uid(user: str) -> Optional[int]:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
