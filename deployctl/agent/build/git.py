"""git, asked without ever waiting for a person, and its failures sorted."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Dict, List, NamedTuple, Optional, Sequence

from ..core.interface import AgentError

ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_CONFIG_COUNT": "3",
    # A connection that brings less than this for that long is given up.
    "GIT_CONFIG_KEY_0": "http.lowSpeedLimit",
    "GIT_CONFIG_VALUE_0": "1000",
    "GIT_CONFIG_KEY_1": "http.lowSpeedTime",
    "GIT_CONFIG_VALUE_1": "60",
    # A checkout that belongs to somebody else is only read.
    "GIT_CONFIG_KEY_2": "safe.directory",
    "GIT_CONFIG_VALUE_2": "*",
    "LC_ALL": "C",
}
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
    """Where git works: its program, its folder (None: nowhere) and further variables."""

    program: str
    folder: Optional[str] = None
    env: Dict[str, str] = {}

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
            env=environment(self.env),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
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
                env=environment(self.env),
                input=text if text is not None else b"",
                capture_output=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            said = f"git {arguments[0]} timed out after {timeout:g} s"
            raise AgentError("network", said) from None

    def _argv(self, arguments: Sequence[str]) -> List[str]:
        place = [] if self.folder is None else ["-C", self.folder]
        return [self.program, *place, *arguments]


def environment(extra: Dict[str, str]) -> Dict[str, str]:
    """Our own environment without what would point git elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept.update(ENVIRONMENT)
    kept.update(extra)
    return kept


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
