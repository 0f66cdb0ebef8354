"""A container entered through its node: the same programs, started by `pct exec` or `lxc-attach`.

No shell stands between the node and the container: an argv stays an argv.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deployctl.config.host import ContainerSettings, HostSettings
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

Command = Callable[[ContainerSettings], list[str]]


@dataclass(frozen=True)
class Program:
    """The node's commands for a container: to enter it (an argv follows `--`), start, and thaw."""

    enter: Command
    start: Command
    resume: Command


def _where(container: ContainerSettings) -> list[str]:
    path = container.lxc_path
    return [*(["-P", path] if path else []), "-n", container.id]


PROGRAMS = {
    "pct": Program(
        lambda container: ["pct", "exec", container.id],
        lambda container: ["pct", "start", container.id],
        lambda container: ["pct", "resume", container.id],
    ),
    "lxc-attach": Program(
        lambda container: ["lxc-attach", *_where(container)],
        lambda container: ["lxc-start", *_where(container)],
        lambda container: ["lxc-unfreeze", *_where(container)],
    ),
}
"""By the name that a host file gives them in `via`."""


def way(host: HostSettings, reach: Callable[[HostSettings], Transport]) -> ContainerTransport:
    """The way into a container, through its node."""
    assert host.container is not None and host.node is not None, "a container has a node"
    return ContainerTransport(host.name, host.container, reach(host.node))


class ContainerTransport:
    """Starts programs in a container of the node that `node` reaches."""

    def __init__(self, name: str, settings: ContainerSettings, node: Transport) -> None:
        self.name = name
        self._settings = settings
        self._program = PROGRAMS[settings.via]
        self._node = node

    def open(self, argv: Sequence[str]) -> Channel:
        return self._node.open([*CLEAN, *self._program.enter(self._settings), "--", *argv])

    def explain(self, ending: Ending | None) -> HostError | None:
        """Asks the node for the container's state: a frozen one says nothing at all."""
        unreached = self._node.explain(ending)
        if unreached is not None:
            return unreached
        program = self._program.enter(self._settings)[0]
        if ending is not None and ending.status == 127 and ending.stderr.startswith("env:"):
            return Unreachable(
                self.name,
                f"{self._node.name} has no {program}",
                ending.stderr.strip(),
                "correct container: via in the host file, or node: if this is not the node",
            )
        state = self._state()
        container, node = f"container {self._settings.id}", self._node.name
        start, resume = (
            " ".join(command(self._settings))
            for command in (self._program.start, self._program.resume)
        )
        if "doesn't exist" in state:
            what, todo = "does not exist", f"see which there are: lxc-ls on {node}"
        elif "STOPPING" in state or "STOPPED" in state:
            what, todo = (
                "is not running",
                f"start it: {start} on {node}",
            )
        elif "FREEZING" in state or "FROZEN" in state:
            what, todo = "is frozen", f"thaw it: {resume} on {node}"
        else:
            return None
        said = ending.stderr.strip() if ending is not None else ""
        why = "; ".join(part for part in (f"{node} says: {state}", said) if part)
        return Unreachable(self.name, f"{container} on {node} {what}", why, todo)

    def close(self) -> None:
        self._node.close()

    def _state(self) -> str:
        """What the node says of the container: a word of lxc-info(1), or why there is none.

        `pct status` calls a frozen container running, so LXC itself is asked, on Proxmox too."""
        said = bytearray()
        try:
            channel = self._node.open([*CLEAN, "lxc-info", *_where(self._settings), "-s", "-H"])
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
