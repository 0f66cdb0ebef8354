"""A file of any size, sent to a host."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from deployctl.agent.wire.answers import FileWritten
from deployctl.hosts.operations import files
from deployctl.hosts.session import Session
from deployctl.hosts.stream import AHEAD

CHUNK = 192 * 1024


def upload(session: Session, source: Path, path: str, mode: int | None = None) -> FileWritten:
    """Send a file to `path` on the host, atomically; gives `sha256` and `size`."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, 2)
        file.seek(0)
        stream = session.stream(files.put, path=path, size=size, sha256=digest, mode=mode)
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
    return stream.result()
