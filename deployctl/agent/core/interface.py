"""What every operation of the agent is given, and how it says that it cannot answer."""

from __future__ import annotations

import glob
import os
import queue
import threading
import time
from typing import Any, Callable, Dict, Optional

from . import layout

PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
# Debian and Ubuntu; Fedora and Red Hat; SUSE.
AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)


BEAT = 5.0
"""Seconds after which an operation that works on says so."""


PRIVATE = 0o077
"""The umask of everything that deployctl keeps."""
USUAL_UMASK = 0o022


class AgentError(Exception):
    """An operation cannot be done. `kind` is one word that the controller may branch on."""

    def __init__(self, kind: str, message: str, detail: Any = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.detail = detail


def _checked(name: str) -> str:
    if not layout.NAME.match(name):
        raise AgentError("bad-name", "%r cannot name a profile or unit" % name)
    return name


class Call:
    """One running operation: its way to report progress, to be cancelled and to be fed.

    `root` is the directory of everything deployctl keeps on this host; `umask` is for programs
    that are not ours, whose files others may be meant to read. `inbox` holds what was fed,
    and None once it is cancelled.
    """

    def __init__(
        self, root: str, emit: Callable[[Dict[str, Any]], None], umask: int = USUAL_UMASK
    ) -> None:
        self.root = root
        self.umask = umask
        self.emit = emit
        self.cancelled = threading.Event()
        self.inbox: "queue.Queue[Any]" = queue.Queue()
        self._beat = time.monotonic()

    def beat(self) -> None:
        """Say that the operation still works, where that is due."""
        if time.monotonic() - self._beat >= BEAT:
            self._beat = time.monotonic()
            self.emit({})

    def step(self) -> None:
        """One step of long work is done: says so where it is due, and ends with `cancelled` once no
        caller waits for it.
        """
        if self.cancelled.is_set():
            raise AgentError("cancelled", "it was given up")
        self.beat()

    def path(self, name: str) -> str:
        """An absolute path: `@/x` is x under the root, `~` the user's home, else as it is."""
        if name == "@" or name.startswith("@/"):
            return layout.resolved(self.root, name[2:])
        return os.path.abspath(os.path.expanduser(name))

    def profile(self, name: str) -> str:
        """The directory of a profile; error `bad-name` where nothing can be called so."""
        return layout.profile_home(self.root, _checked(name))

    def unit(self, profile: str, unit: str, item: str) -> str:
        """Where something of a unit lies: `releases`, `server`, `current` or `previous`."""
        return layout.place(self.root, _checked(profile), _checked(unit), item)

    def placed(self, word: str) -> str:
        """A word in which `@/x` stands for a path under the root; any other one as it is."""
        return self.path(word) if word == "@" or word.startswith("@/") else word

    def pattern(self, name: str) -> str:
        """The same for a glob: what the root's own path holds of `*`, `?` and `[` is literal."""
        if name.startswith("@/"):
            return os.path.join(glob.escape(self.root), name[2:])
        return self.path(name)

    def environment(self, extra: Optional[Dict[str, str]] = None) -> Dict[str, str]:
        """The environment for a child, whatever started the agent: HOME, a full PATH, and the
        certificate authorities that the host's own programs trust (uv brings others along)."""
        env = dict(os.environ)
        env.setdefault("HOME", os.path.expanduser("~"))
        # A relative entry, an empty one too, is whatever lies in the working directory.
        have = [p for p in env.get("PATH", "").split(os.pathsep) if os.path.isabs(p)]
        have += [place for place in PROGRAMS if place not in have]
        env["PATH"] = os.pathsep.join(have)
        trusted = next((path for path in AUTHORITIES if os.path.isfile(path)), None)
        if trusted is not None and "SSL_CERT_DIR" not in env:
            env.setdefault("SSL_CERT_FILE", trusted)
        # A server that may not write bytecode compiles itself again, for minutes, at every start.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env.update(extra or {})
        return env
