"""A container entered through its node: the same programs, started by `pct exec` or `lxc-attach`.

No shell stands between the node and the container: an argv stays an argv.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from deployctl.config.host import ContainerSettings
from deployctl.errors import HostError, Unreachable
from deployctl.hosts.interface import Channel, Ending, Transport

# The node's login shell may lack /usr/sbin, where pct lies; and both programs hand their
# environment on to the container, where the node's has no meaning.
CLEAN = (
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)
STATE_LIMIT = 10.0


class ContainerTransport:
    """Starts programs in a container of the node that `node` reaches."""

    def __init__(self, name: str, settings: ContainerSettings, node: Transport) -> None:
        self.name = name
        self._settings = settings
        self._node = node

    def open(self, argv: Sequence[str]) -> Channel:
        return self._node.open([*CLEAN, *self._enter(), "--", *argv])

    def explain(self, ending: Ending | None) -> HostError | None:
        """Asks the node for the container's state: a frozen one says nothing at all."""
        unreached = self._node.explain(ending)
        if unreached is not None:
            return unreached
        program = self._enter()[0]
        if ending is not None and ending.status == 127 and ending.stderr.startswith("env:"):
            return Unreachable(
                self.name,
                f"{self._node.name} has no {program}",
                ending.stderr.strip(),
                "correct container: via in the host file, or node: if this is not the node",
            )
        state = self._state()
        container, node = f"container {self._settings.id}", self._node.name
        if "doesn't exist" in state:
            what, todo = "does not exist", f"see which there are: lxc-ls on {node}"
        elif "STOPPING" in state or "STOPPED" in state:
            what, todo = "is not running", f"start it: {self._by_hand('start')} on {node}"
        elif "FREEZING" in state or "FROZEN" in state:
            what, todo = "is frozen", f"thaw it: {self._by_hand('resume')} on {node}"
        else:
            return None
        said = ending.stderr.strip() if ending is not None else ""
        why = "; ".join(part for part in (f"{node} says: {state}", said) if part)
        return Unreachable(self.name, f"{container} on {node} {what}", why, todo)

    def close(self) -> None:
        self._node.close()

    def _enter(self) -> list[str]:
        if self._settings.via == "pct":
            return ["pct", "exec", self._settings.id]
        return ["lxc-attach", *self._where()]

    def _where(self) -> list[str]:
        path = self._settings.lxc_path
        return [*(["-P", path] if path else []), "-n", self._settings.id]

    def _by_hand(self, verb: str) -> str:
        if self._settings.via == "pct":
            return f"pct {verb} {self._settings.id}"
        return " ".join([{"start": "lxc-start", "resume": "lxc-unfreeze"}[verb], *self._where()])

    def _state(self) -> str:
        """What the node says of the container: a word of lxc-info(1), or why there is none.

        `pct status` calls a frozen container running, so LXC itself is asked, on Proxmox too."""
        said = bytearray()
        try:
            channel = self._node.open([*CLEAN, "lxc-info", *self._where(), "-s", "-H"])
        except HostError as error:
            return str(error)
        limit = threading.Timer(STATE_LIMIT, channel.close)
        limit.start()
        try:
            while data := channel.receive():
                said += data
            return (said.decode(errors="replace") + channel.ending().stderr).strip()
        finally:
            limit.cancel()
            limit.join()
            channel.close()
