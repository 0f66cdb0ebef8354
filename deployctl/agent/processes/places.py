"""What the processes of one look have in common: users, control groups, chains of namespaces."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from . import namespaces

Groups = List[Tuple[str, str]]


class Places:
    """Reads each of these once; built again for every look, since all of them may change."""

    def __init__(self) -> None:
        self._users: Dict[int, str] = {}
        self._frozen: Dict[Tuple[str, str], bool] = {}
        self._chains: Dict[int, List[int]] = {}

    def user(self, uid: int) -> str:
        """A user's name."""
        if uid not in self._users:
            self._users[uid] = namespaces.user_name(uid)
        return self._users[uid]

    def frozen(self, groups: Groups, channel: Optional[str]) -> bool:
        """Whether a process in these control groups that waits there is stopped by the freezer."""
        for group in groups:
            if group not in self._frozen:
                self._frozen[group] = namespaces.frozen([group], None)
        return namespaces.frozen([], channel) or any(self._frozen[group] for group in groups)

    def namespaces(self, pid: int) -> List[int]:
        """A process's PID namespaces, innermost first."""
        own = os.stat("/proc/%d/ns/pid" % pid).st_ino
        if own not in self._chains:
            self._chains[own] = namespaces.namespaces(pid)
        return self._chains[own]
