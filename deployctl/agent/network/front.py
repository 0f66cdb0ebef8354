"""The front of a profile with two units: relays its port to the one that serves, connection by
connection.

It reads its file again for each connection, so that a switch is one atomic replacement of that
file; connections that are open stay with the unit that they began with until it has drained. With
`hold` in the file new ones wait for its next replacement, for `hold` seconds at most;
with `cut` open ones are closed first: whoever keeps one for further requests opens another.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from contextlib import suppress
from typing import Any, Dict, Optional, Set, Tuple

PIECE = 65536
MOST = 4096
"""Connections at once; each takes two descriptors and some memory."""
POLL = 0.02
"""Seconds between two looks at the file while anybody waits for it, or could be cut off."""

Stamp = Tuple[int, int, int]


def read(path: str) -> Dict[str, Any]:
    """The front's file: `host` and `port` to listen on, `slot` and `target`, a loopback port;
    maybe `hold` in seconds, and `cut`."""
    with open(path, encoding="utf-8") as file:
        found: Dict[str, Any] = json.load(file)
        if found.get("hold"):
            found["until"] = os.fstat(file.fileno()).st_mtime + float(found["hold"])
    return found


def serve(path: str) -> int:
    """Entry of the front's process."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    allow_connections()
    asyncio.run(_serve(path))
    return 0


def allow_connections() -> None:
    """Each connection takes two descriptors; a login shell's limit of 1024 is soon reached."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(path: str) -> None:
    settings = read(path)

    limit = min(MOST, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64) // 2)
    relayed = 0
    relay = Relay(path)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal relayed
        if relayed >= limit:
            writer.close()
            return
        relayed += 1
        try:
            await relay.carry(reader, writer)
        finally:
            relayed -= 1

    server = await asyncio.start_server(accept, settings["host"], settings["port"])
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print("%s listening on %s:%d" % (stamp, settings["host"], settings["port"]), flush=True)
    async with server:
        await server.serve_forever()


class Relay:
    """The connections that are open, and the file that says where new ones go."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = 0
        self._led: Set[Tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        """Both ends of those that lead to a unit."""
        self._watching: Optional["asyncio.Task[None]"] = None
        self._stamp: Optional[Stamp] = None
        self._turned = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        self._open += 1
        if self._watching is None:
            self._stamp = self._look()
            self._watching = asyncio.ensure_future(self._watch())
        try:
            await self._lead(reader, writer)
        finally:
            self._open -= 1

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", await self._target())
        except (OSError, ValueError, KeyError) as error:
            print("the slot cannot be reached: %s" % error, flush=True)
            writer.close()
            return
        self._led.add((writer, back))
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        except OSError:
            pass  # one side is gone; so is the other, below
        finally:
            self._led.discard((writer, back))
            for end in (writer, back):
                end.close()

    async def _target(self) -> int:
        """Where to lead a connection, once that is settled."""
        while True:
            settings = read(self._path)
            left = settings.get("until", 0.0) - time.time()
            if left <= 0.0:
                return int(settings["target"])
            self._turned.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._turned.wait(), min(left, 1.0))

    async def _watch(self) -> None:
        """See the file replaced, for as long as there are connections."""
        while self._open:
            await asyncio.sleep(POLL)
            stamp = self._look()
            if stamp != self._stamp:
                self._stamp = stamp
                self._turned.set()
                self._cut()
        self._watching = None

    def _cut(self) -> None:
        with suppress(OSError, ValueError):
            if read(self._path).get("cut"):
                for ends in self._led:
                    for end in ends:
                        end.close()

    def _look(self) -> Optional[Stamp]:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        data = await reader.read(PIECE)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
