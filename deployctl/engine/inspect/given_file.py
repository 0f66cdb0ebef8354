"""A file that somebody hands to a reader: its text, whatever it is."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from deployctl.errors import UsageError

LONGEST = 16 << 20


def text_of(name: str) -> str:
    """The text of a regular file, or of standard input for `-`; raises UsageError where there is
    none or it is too long. UTF-16 is known by its mark; other bytes that are not UTF-8 are
    replaced."""
    try:
        data = sys.stdin.buffer.read(LONGEST + 1) if name == "-" else _read(Path(name))
    except OSError as error:
        raise UsageError(f"{name} cannot be read", error.strerror or str(error)) from error
    if len(data) > LONGEST:
        raise UsageError(f"{name} is too long", f"more than {LONGEST} bytes")
    marked = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if marked else "utf-8-sig", "replace")


def _read(path: Path) -> bytes:
    # Opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        return file.read(LONGEST + 1)
