"""An operation of the agent that is fed and heard while it runs, and what is built on it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployctl import cancel
from deployctl.errors import HostError

if TYPE_CHECKING:
    from deployctl.hosts.session import Call, Session

CHUNK = 192 * 1024
AHEAD = 1 << 20
"""Bytes sent ahead of what the host has acknowledged: more would only queue, before our pings."""


class Stream:
    """A running operation: `feed` it, take its events with `next`; `cancel` ends it."""

    def __init__(self, session: Session, call: Call) -> None:
        self._session = session
        self._call = call
        self._number, self._box = session._open([call])
        self.value: Any = None
        """What the operation gave, once it has ended."""
        self.failure: HostError | None = None
        """Why it gave nothing, once it has ended."""
        self._ended = False

    def feed(self, data: Any) -> None:
        """Hand the operation its next input."""
        self._session._send({"feed": self._number, "data": data})

    def cancel(self) -> None:
        """Ask the operation to end."""
        self._session._send({"cancel": self._number})

    def next(self) -> dict[str, Any] | None:
        """The next event, blocking; None when the operation has ended or the host is gone."""
        if self._ended:
            return None
        with cancel.waking(lambda: self._box.put({"woken": True})):
            while "woken" in (message := self._box.get()):
                cancel.check()
        if "event" in message:
            event: dict[str, Any] = message["event"]
            return event
        self._ended = True
        self._session._forget(self._number)
        if "results" in message:
            (answer,) = self._session._answers([self._call], message["results"])
            if isinstance(answer, HostError):
                self.failure = answer
            else:
                self.value = answer
        else:
            self.failure = self._session._gone()
        return None

    def result(self) -> Any:
        """Wait for the end, leaving events unread; raises what the operation failed with."""
        while self.next() is not None:
            pass
        if self.failure is not None:
            raise self.failure
        return self.value


def upload(session: Session, source: Path, path: str, mode: int | None = None) -> dict[str, Any]:
    """Send a file of any size to `path` on the host, atomically; gives `sha256` and `size`."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, 2)
        file.seek(0)
        stream = session.stream("files.put", path=path, size=size, sha256=digest, mode=mode)
        sent = taken = 0
        try:
            while stream.failure is None and (data := file.read(CHUNK)):
                stream.feed(base64.b64encode(data).decode("ascii"))
                sent += len(data)
                while sent - taken > AHEAD:
                    event = stream.next()
                    if event is None:
                        break
                    taken = event["taken"]
        except BaseException:
            stream.cancel()
            raise
    if sent < size:
        stream.cancel()  # the file became shorter meanwhile
    result: dict[str, Any] = stream.result()
    return result
