"""What clients of a router reach: it passes on their requests, and nothing that changes the router.

One request a connection to the router, so that what follows it cannot be another request that was
not looked at. While the router is started again, requests wait.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, Dict, List, Tuple

from .front import PIECE, allow_connections

PREFIX, EXACT = "/v1/", ("/health", "/liveness", "/readiness")
HOP = (b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"http2-settings")
"""Headers of one connection alone (RFC 9110, 7.6.1), in place of which ours is sent."""
HEAD_LIMIT = 60.0
"""Seconds for a request's head."""
PATIENCE = 30.0
"""Seconds for a router that is started again."""
POLL = 0.1


class Refused(Exception):
    """A request that is not passed on, with the status to answer."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def passed_on(head: bytes) -> bytes:
    """The head of a request as the router gets it; raises `Refused` for one that is not a
    client's, or that two programs could read differently."""
    lines = head.split(b"\r\n")
    if any(byte in head.replace(b"\r\n", b"") for byte in (b"\n", b"\r", b"\0")):
        raise Refused("400 Bad Request")
    words = lines[0].split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Refused("400 Bad Request")
    if not allowed(words[1].decode("latin-1")):
        raise Refused("404 Not Found")
    kept: List[bytes] = []
    for line in lines[1:-2]:
        name, colon, _ = line.partition(b":")
        if not colon or not name or name != name.strip():
            raise Refused("400 Bad Request")
        if name.lower() not in HOP:
            kept.append(line)
    return b"\r\n".join([lines[0], *kept, b"Connection: close", b"", b""])


def allowed(target: str) -> bool:
    """Whether a request's target is one for clients."""
    path = target.partition("?")[0]
    plain = path.lower().replace("%2e", ".").replace("%2f", "/").replace("\\", "/")
    if any(part in (".", "..") for part in plain.split("/")):
        return False
    return path in EXACT or path.startswith(PREFIX)


def serve(path: str) -> int:
    """Entry of the process."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    allow_connections()
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Dict[str, Any]) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            await _answer(int(settings["target"]), reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, settings["host"], settings["port"], limit=PIECE)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print("%s listening on %s:%d" % (stamp, settings["host"], settings["port"]), flush=True)
    async with server:
        await server.serve_forever()


async def _answer(target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_LIMIT)
        except asyncio.LimitOverrunError:
            raise Refused("431 Request Header Fields Too Large") from None
        request = passed_on(head)
        there, back = await _reach(target)
    except Refused as refused:
        await _refuse(writer, refused.status)
        return
    try:
        back.write(request)
        sending = asyncio.ensure_future(_pump(reader, back, last=True))
        try:
            await _pump(there, writer)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending
    finally:
        back.close()


async def _reach(target: int) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            if time.monotonic() > end:
                raise Refused("503 Service Unavailable") from None
        await asyncio.sleep(POLL)


async def _refuse(writer: asyncio.StreamWriter, status: str) -> None:
    body = json.dumps({"error": {"message": "deployctl's proxy: %s" % status}}).encode("ascii")
    head = "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (
        status,
        len(body),
    )
    writer.write(head.encode("ascii") + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: bool = False
) -> None:
    while True:
        data = await reader.read(PIECE)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if last and writer.can_write_eof():
        writer.write_eof()
