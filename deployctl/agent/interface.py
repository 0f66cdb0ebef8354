"""What every operation of the agent is given, and how it says that it cannot answer."""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, Callable, Dict, Optional


class AgentError(Exception):
    """An operation cannot be done. `kind` is one word that the controller may branch on."""

    def __init__(self, kind: str, message: str, detail: Any = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


class Call:
    """One running operation: its way to report progress, to be cancelled and to be fed.

    `root` is the directory of everything deployctl keeps on this host. `inbox` holds what was fed,
    and None once it is cancelled.
    """

    def __init__(self, root: str, emit: Callable[[Dict[str, Any]], None]) -> None:
        self.root = root
        self.emit = emit
        self.cancelled = threading.Event()
        self.inbox: "queue.Queue[Any]" = queue.Queue()

    def path(self, name: str) -> str:
        """An absolute path: `@/x` is x under the root, `~` the user's home, else as it is."""
        if name == "@" or name.startswith("@/"):
            return os.path.join(self.root, name[2:])
        return os.path.abspath(os.path.expanduser(name))

    def environment(self, extra: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        """The environment for a child: HOME and a full PATH whatever started the agent."""
        env = dict(os.environ)
        env.setdefault("HOME", os.path.expanduser("~"))
        have = [p for p in env.get("PATH", "").split(os.pathsep) if p]
        for place in (
            "/usr/local/bin",
            "/usr/bin",
            "/bin",
            "/usr/local/sbin",
            "/usr/sbin",
            "/sbin",
        ):
            if place not in have:
                have.append(place)
        env["PATH"] = os.pathsep.join(have)
        # A server that may not write bytecode compiles itself anew, for minutes, at every start.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env.update(extra or {})
        return env
