"""A program of the agent that moves pieces, at the other end of a channel of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from deployctl.errors import ConnectionLost, HostError
from deployctl.hosts.bundle import bundle
from deployctl.hosts.interface import Channel, Transport
from deployctl.hosts.shipping.parties import Party
from deployctl.hosts.transports import bulk_transport


class Program:
    """One `ship` program on a host; `close` ends it whatever it does."""

    def __init__(self, party: Party, asked: Mapping[str, Any]) -> None:
        self.name = party.name
        self._transport: Transport = bulk_transport(party.settings)
        archive = f"{party.session.root}/agent/{bundle().sha256}.pyz"
        sends = asked["from"] == "disk"
        argv = [str(party.session.agent["executable"]), "-I", archive, "ship"]
        given = json.dumps(asked)
        try:
            # What a sender is to send may be more than an argument may hold.
            channel = self._transport.open(argv if sends else [*argv, given])
        except BaseException:
            self._transport.close()
            raise
        self.channel: Channel = channel
        if sends:
            self.channel.send(given.encode() + b"\n")

    def reader(self) -> io.BufferedReader:
        """Its output as a file."""
        return io.BufferedReader(_Raw(self.channel), 1 << 20)

    def failure(self, what: str) -> HostError:
        """Why it ended too early."""
        ending = self.channel.ending()
        words = ending.stderr.strip()
        told = self._transport.explain(ending)
        todo = "run again: what came already is kept"
        return told or ConnectionLost(
            self.name, what, words.splitlines()[-1] if words else "", todo
        )

    def close(self) -> None:
        self.channel.close()
        self._transport.close()


class _Raw(io.RawIOBase):
    """A channel's output for io's buffers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._rest or self._receive()
        count = min(len(data), len(buffer))
        buffer[:count] = data[:count]
        self._rest = data[count:]
        return count

    def _receive(self) -> bytes:
        try:
            return self._channel.receive()
        except (OSError, EOFError):
            return b""
