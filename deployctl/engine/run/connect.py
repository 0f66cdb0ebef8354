"""Open the agents of a host: its own, and that of the node under it where a profile names one."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from deployctl.config.host import HostSettings
from deployctl.hosts.session import Session
from deployctl.hosts.transports import node_transport, transport


@dataclass(frozen=True)
class Connected:
    """The agents of one host. `node` is the host's own session where there is no node."""

    settings: HostSettings
    session: Session
    node: Session

    @property
    def round_trips(self) -> int:
        own = self.session.round_trips
        return own if self.node is self.session else own + self.node.round_trips

    def close(self) -> None:
        """End the conversations; the agents end, and with them the locks they hold."""
        self.session.close()
        if self.node is not self.session:
            self.node.close()

    def __enter__(self) -> Connected:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def connect(host: HostSettings) -> Connected:
    """Reach a host; raises a `HostError` that says why it cannot be."""
    session = Session(transport(host), root=host.root, python=host.python)
    node = node_transport(host)
    if node is None:
        return Connected(host, session, session)
    assert host.node is not None, "there is a way to the node, so there is one"
    try:
        reached = Session(node, root=host.node.root, python=host.node.python)
    except BaseException:
        session.close()
        raise
    return Connected(host, session, reached)
