"""Regular files, opened without waiting: a FIFO or device under a file's name is refused."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, BinaryIO, Callable, NamedTuple, Optional

CHUNK = 1 << 20


class NotRegular(OSError):
    """There is something of this name, and it is not a readable file."""


class TooBig(OSError):
    """A file has more bytes than it may have."""


def open_regular(path: str) -> BinaryIO:
    """A file to read from; raises `NotRegular` for anything else than a regular file."""
    # Opening a FIFO would wait for its writer, and a terminal would become ours.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular("%s is not a regular file" % path)
    return os.fdopen(handle, "rb")


def read_bytes(path: str, limit: int) -> bytes:
    """A whole file; raises `TooBig` where it has more than `limit` bytes."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooBig("%s has more than %d bytes" % (path, limit))
    return data


def digest(path: str, algorithm: str = "sha256", step: Callable[[], None] = lambda: None) -> Any:
    """The hash object of a file's bytes; `step` is called after each MiB."""
    found = hashlib.new(algorithm)
    with open_regular(path) as file:
        for piece in iter(lambda: file.read(CHUNK), b""):
            found.update(piece)
            step()
    return found


def read_text(path: str) -> Optional[str]:
    """A file's text, bytes that are not UTF-8 replaced; None where there is no file."""
    try:
        with open_regular(path) as file:
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


class Piece(NamedTuple):
    """A part of a growing file: its bytes, where they begin, and how many the file has."""

    data: bytes
    begin: int
    size: int


def read_piece(path: str, offset: int, limit: int) -> Piece:
    """Up to `limit` bytes from `offset` on, which counts from the end where it is negative; from
    the beginning where the file has become shorter than that. Nothing where there is no file."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return Piece(b"", 0, 0)
    with file:
        size = os.fstat(file.fileno()).st_size
        begin = max(0, size + offset) if offset < 0 else offset
        if begin > size:
            begin = 0
        file.seek(begin)
        return Piece(file.read(limit), begin, size)
