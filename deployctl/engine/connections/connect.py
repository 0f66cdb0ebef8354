"""Open the agents of a host: its own, and that of the node under it where a profile names one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployctl.config.host import HostSettings
from deployctl.errors import RemoteError
from deployctl.hosts.session import Call, Session
from deployctl.hosts.transports import node_transport, transport
from deployctl.steps.interface import Answers, Question, Unknown


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

    def __exit__(self, *_: object) -> None:
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


def ask(
    connected: Connected, asked: Mapping[str, Question[Any]], first: Sequence[Call[Any]] = ()
) -> tuple[Answers, Sequence[Any]]:
    """Answer all questions, in one round trip to the host and one to its node if it has one.

    `first` travels ahead in the same request (the lock); its results come back beside.
    """
    own = [q for q in asked.values() if q.where == "host" or connected.node is connected.session]
    other = [q for q in asked.values() if q not in own]
    results = connected.session.ask([*first, *(q.call for q in own)])
    ahead, answered = results[: len(first)], results[len(first) :]
    if other:
        answered += connected.node.ask([q.call for q in other])
    values: dict[str, Any] = {
        q.key: Unknown(a.kind, a.message) if isinstance(a, RemoteError) else a
        for q, a in zip([*own, *other], answered, strict=True)
    }
    return Answers(values), ahead
