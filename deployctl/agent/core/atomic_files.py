"""Small files that are read while others write them, and the boot that they speak of."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Dict, Iterator, Optional

from .regular_files import read_bytes

LIMIT = 64 << 20
"""Bytes of a JSON file that is read."""


def boot_id() -> str:
    """Names this boot: pids and start times of another boot are meaningless."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def parse_object(data: bytes) -> Dict[str, Any]:
    """The JSON object in these bytes; raises ValueError for anything else, however deep."""
    try:
        found = json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in a file; None where there is none. Raises ValueError for a damaged one."""
    try:
        return parse_object(read_bytes(path, LIMIT))
    except FileNotFoundError:
        return None


def write_json(path: str, value: Dict[str, Any], mode: int = 0o600) -> None:
    """Replace a file by a JSON object, in one step."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True), mode)


def write_text(path: str, text: str, mode: int = 0o600) -> None:
    """Replace a file in one step."""
    with replacing(path, mode) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


@contextmanager
def replacing(path: str, mode: int, prefix: str = ".new-") -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` once the body is through: a reader sees the
    old or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=prefix)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def relink(target: str, path: str) -> None:
    """Make or replace a symbolic link, in one step."""
    temporary = "%s.%d.link" % (path, os.getpid())
    # An agent that died here may have had our number.
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, path)
