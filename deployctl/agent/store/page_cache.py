"""Weights read ahead, so that the server which loads them finds them in memory."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import List

from ..core import memory
from ..core.interface import Call
from ..core.weight_files import weights
from ..wire.stored import ReadAhead

PIECE = 8 << 20


def read_ahead(call: Call, paths: List[str], keep: int, limit: float) -> ReadAhead:
    """Read the weights in these folders into the page cache, links followed.

    Nothing is read where that would leave less than `keep` bytes of memory, and no further file
    once `limit` seconds are over: `skipped` says so. `resident` are bytes that lay in memory
    before, as far as the file system tells.
    """
    began = time.monotonic()
    files = dict(weights([call.path(path) for path in paths]))
    answer: ReadAhead = {
        "bytes": sum(files.values()),
        "read": 0,
        "resident": 0,
        "seconds": 0.0,
        "skipped": None,
    }
    left = memory.available() - keep
    if answer["bytes"] > left:
        answer["skipped"] = "%d MiB of weights, %d MiB of memory for them" % (
            answer["bytes"] >> 20,
            max(0, left) >> 20,
        )
        return answer
    piece = bytearray(PIECE)
    for path in files:
        with suppress(OSError), open(path, "rb", buffering=0) as file:
            at = 0
            while True:
                if time.monotonic() - began > limit:
                    answer["skipped"] = "%g s were over" % limit
                    break
                call.step()
                there = _resident(file.fileno(), piece, at)
                size = there or os.preadv(file.fileno(), [piece], at)
                if not size:
                    break
                at += size
                answer["read"] += size
                answer["resident"] += there
    answer["seconds"] = round(time.monotonic() - began, 2)
    return answer


def _resident(handle: int, piece: bytearray, offset: int) -> int:
    """How many of the bytes from here are in memory; 0 where that cannot be asked."""
    with suppress(OSError, AttributeError):
        return os.preadv(handle, [piece], offset, os.RWF_NOWAIT)
    return 0
