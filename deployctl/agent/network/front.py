"""The front of a blue-green profile: relays its port to the slot that serves, connection by
connection.

It reads its file again for each connection, so that a switch is one atomic replacement of that
file; connections that are open stay with the slot that they began with until it has drained.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import time
from contextlib import suppress
from typing import Any, Dict

PIECE = 65536
MOST = 4096
"""Connections at once; each takes two descriptors and some memory."""


def read(path: str) -> Dict[str, Any]:
    """The front's file: `host` and `port` to listen on, `slot` and `target`, a loopback port."""
    with open(path, encoding="utf-8") as file:
        found: Dict[str, Any] = json.load(file)
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

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal relayed
        if relayed >= limit:
            writer.close()
            return
        relayed += 1
        try:
            await _relay(path, reader, writer)
        finally:
            relayed -= 1

    server = await asyncio.start_server(accept, settings["host"], settings["port"])
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print("%s listening on %s:%d" % (stamp, settings["host"], settings["port"]), flush=True)
    async with server:
        await server.serve_forever()


async def _relay(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there, back = await asyncio.open_connection("127.0.0.1", read(path)["target"])
    except (OSError, ValueError, KeyError) as error:
        print("the slot cannot be reached: %s" % error, flush=True)
        writer.close()
        return
    try:
        await asyncio.gather(_pump(reader, back), _pump(there, writer))
    except OSError:
        pass  # one side is gone; so is the other, below
    finally:
        for end in (writer, back):
            end.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        data = await reader.read(PIECE)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
