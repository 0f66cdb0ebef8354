"""Secret values in logs of programs that print them: overwritten, byte by byte, where they lie."""

from __future__ import annotations

import json
import os
import re
from typing import Iterable, List, Set
from urllib.parse import quote

LEAST = 6
"""Characters of a value that is looked for; shorter ones stand in every log by chance."""
PIECE = 1 << 20


def forms(values: Iterable[str]) -> List[bytes]:
    """The bytes that stand for these values: as they are, in JSON and in a URL; longest first."""
    found: Set[str] = set()
    for value in values:
        if len(value) >= LEAST:
            found.update((value, json.dumps(value)[1:-1], quote(value), quote(value, safe="")))
    data = {one.encode("utf-8", "surrogateescape") for one in found}
    return sorted(data, key=len, reverse=True)


def hidden(data: bytes, secrets: List[bytes]) -> bytes:
    """The same bytes with stars in place of each secret, none more and none less."""
    if not secrets:
        return data
    pattern = b"|".join(re.escape(one) for one in secrets)
    return re.sub(pattern, lambda found: b"*" * len(found.group()), data)


class LogMask:
    """Hides secrets in a log that grows; each `tend` covers what came since the last."""

    def __init__(self, path: str, values: Iterable[str]) -> None:
        self.path = path
        self._secrets = forms(values)
        self._overlap = max((len(one) for one in self._secrets), default=1) - 1
        self._seen = 0

    def tend(self) -> None:
        """Raises OSError where the log cannot be read or written."""
        if not self._secrets:
            return
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(handle).st_size
            if size < self._seen:
                self._seen = 0  # it was emptied
            while self._seen < size:
                begin = max(0, self._seen - self._overlap)
                data = os.pread(handle, PIECE, begin)
                self._overwrite(handle, begin, data)
                self._seen = begin + len(data)
        finally:
            os.close(handle)

    def _overwrite(self, handle: int, begin: int, data: bytes) -> None:
        pattern = b"|".join(re.escape(one) for one in self._secrets)
        for found in re.finditer(pattern, data):
            os.pwrite(handle, b"*" * len(found.group()), begin + found.start())
