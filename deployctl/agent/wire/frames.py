"""Pieces on a stream: a first line, then number, length and bytes of each, and an end.

Format: ``\ndeployctl pieces 1\n``, then frames of two big-endian 32-bit numbers (piece, length) and
that many bytes; piece 0xFFFFFFFF with length 0 ends the stream. What comes before the first line (a
login script's greeting) is skipped.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Iterator, Tuple

MAGIC = b"\ndeployctl pieces 1\n"
END = 0xFFFFFFFF
LONGEST = 1 << 30
GREETING_LIMIT = 1 << 20
_HEAD = struct.Struct(">II")

Frame = Tuple[int, bytes]


class BrokenStream(Exception):
    """The stream ended before its end, or holds something else."""


def head(number: int, length: int) -> bytes:
    """What stands before a piece's bytes."""
    return _HEAD.pack(number, length)


def end() -> bytes:
    """What stands after the last piece."""
    return _HEAD.pack(END, 0)


def read(stream: BinaryIO) -> Iterator[Frame]:
    """Every piece of a stream; raises `BrokenStream`."""
    _find_begin(stream)
    while True:
        number, length = _HEAD.unpack(_exactly(stream, _HEAD.size))
        if number == END:
            return
        if length > LONGEST:
            raise BrokenStream("a piece of %d bytes was announced" % length)
        yield number, _exactly(stream, length)


def _find_begin(stream: BinaryIO) -> None:
    seen = b""
    while not seen.endswith(MAGIC):
        if len(seen) > GREETING_LIMIT:
            raise BrokenStream("it does not begin as pieces do")
        byte = stream.read(1)
        if not byte:
            raise BrokenStream("it ended before it began: %r" % seen[-200:])
        seen += byte


def _exactly(stream: BinaryIO, length: int) -> bytes:
    parts = []
    left = length
    while left:
        data = stream.read(left)
        if not data:
            raise BrokenStream("it ended in the middle")
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
