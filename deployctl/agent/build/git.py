"""git, asked without ever waiting for a person, and its failures sorted."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..core.interface import AgentError

ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "LC_ALL": "C",
}
SETTINGS = {
    # A connection that brings less than this for that long is given up.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    # Programs that a repository may name.
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
}
"""Settings that no repository's own configuration overrides."""
SUBMODULES = {"GIT_ALLOW_PROTOCOL": "git:http:https:ssh"}
"""A pull request names where its submodules come from: never a folder of this host."""
_NETWORK = re.compile(
    r"could not resolve|couldn't resolve|name or service not known|temporary failure in name"
    r"|connection (refused|timed out|reset)|network is unreachable|no route to host"
    r"|failed to connect|couldn't connect|operation too slow|early eof|the remote end hung up"
    r"|unable to look up|timed out",
    re.IGNORECASE,
)
_REF = re.compile(
    r"couldn't find remote ref|not our ref|no such ref|unadvertised object", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"(\w+://)[^/@\s]+@")


class Git(NamedTuple):
    """Where git works: its program, its folder (None: nowhere), further variables and settings,
    and the user and group that it runs as (None: ours)."""

    program: str
    folder: Optional[str] = None
    env: Dict[str, str] = {}
    settings: Dict[str, str] = {}
    user: Optional[Tuple[int, int]] = None

    def run(self, *arguments: str, timeout: float = 120.0, text: Optional[bytes] = None) -> str:
        """Standard output; raises `AgentError` of kind network, no-ref, repository or git."""
        done = self._call(arguments, timeout, text)
        if done.returncode != 0:
            raise failure(arguments, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape")

    def succeeds(self, *arguments: str, timeout: float = 120.0) -> bool:
        """Whether git answers yes (status 0) or no (1)."""
        return self._call(arguments, timeout, None).returncode == 0

    def show(self, *arguments: str) -> None:
        """Run with its output on ours; raises as `run` does."""
        done = subprocess.run(
            self._argv(arguments),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **self._options(),
        )
        os.write(2, done.stderr)
        if done.returncode != 0:
            raise failure(arguments, done.stderr)

    def _call(
        self, arguments: Sequence[str], timeout: float, text: Optional[bytes]
    ) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                self._argv(arguments),
                input=text if text is not None else b"",
                capture_output=True,
                timeout=timeout,
                **self._options(),
            )
        except subprocess.TimeoutExpired:
            said = f"git {arguments[0]} timed out after {timeout:g} s"
            raise AgentError("network", said) from None

    def _argv(self, arguments: Sequence[str]) -> List[str]:
        place = [] if self.folder is None else ["-C", self.folder]
        return [self.program, *place, *arguments]

    def _options(self) -> Dict[str, Any]:
        env = _inherited() if self.user is None else _of_another_user()
        settings = dict(SETTINGS, **self.settings)
        env.update(ENVIRONMENT, GIT_CONFIG_COUNT=str(len(settings)))
        for number, (key, value) in enumerate(settings.items()):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        env.update(self.env)
        if self.user is None:
            return {"env": env}
        user, group = self.user
        return {"env": env, "user": user, "group": group, "extra_groups": []}


def _inherited() -> Dict[str, str]:
    """Our own environment without what would point git elsewhere, or make it trust the folders of
    whoever called sudo."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept.pop("SUDO_UID", None)
    return kept


def _of_another_user() -> Dict[str, str]:
    """Another user may read the environment of its processes: nothing of ours is in it."""
    kept = {"PATH": os.environ["PATH"]} if "PATH" in os.environ else {}
    return dict(kept, HOME="/nonexistent", GIT_CONFIG_GLOBAL="/dev/null")


def failure(arguments: Sequence[str], stderr: bytes) -> AgentError:
    """A failed git as an error: network, no-ref, repository (not there, or refused) or git."""
    text = without_credentials(stderr.decode("utf-8", "replace").strip())
    lines = [line for line in text.splitlines() if line.startswith(("fatal:", "error:"))]
    words = "; ".join(lines) or (text.splitlines() or ["no message"])[-1]
    if _REF.search(text):
        kind = "no-ref"
    elif _NETWORK.search(text):
        kind = "network"
    elif arguments[0] in ("ls-remote", "fetch", "clone"):
        kind = "repository"
    else:
        kind = "git"
    return AgentError(kind, f"git {arguments[0]}: {words}", text[-2000:])


def without_credentials(text: str) -> str:
    """URLs without the user and password that may stand in them."""
    return _CREDENTIALS.sub(r"\1", text)
