"""Small files that are read while others write them, and the boot that they speak of."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Optional


def boot_id() -> str:
    """Names this boot: pids and start times of another one mean nothing."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in a file; None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    return found if isinstance(found, dict) else None


def write_json(path: str, value: Dict[str, Any], mode: int = 0o644) -> None:
    """Replace a file by a JSON object, in one step."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True), mode)


def write_text(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, so that a reader sees the old or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
