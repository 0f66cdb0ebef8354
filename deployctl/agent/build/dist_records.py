"""RECORD files of installed distributions, kept true where we change what they list."""

from __future__ import annotations

import base64
import csv
import glob
import io
import os
from typing import Any, Dict, Iterable, List, Optional

from ..core.atomic_files import write_text
from ..core.interface import AgentError
from ..core.regular_files import digest, open_regular


def site_packages(environment: str) -> str:
    """Where an environment's distributions lie; error `no-environment` where there is no such."""
    pattern = os.path.join(glob.escape(environment), "lib", "python3*", "site-packages")
    found = glob.glob(pattern)
    if len(found) != 1:
        raise AgentError("no-environment", f"{environment} is not a Python environment")
    return found[0]


def refresh(site: str, info: str, paths: Iterable[str]) -> bool:
    """Bring the rows of these paths (relative to `site`) up to date: new hash and size, a row for
    a new file, none for one that is gone. Gives whether anything changed."""
    name = os.path.join(site, info, "RECORD")
    rows = read(name)
    before = dict(rows)
    for path in paths:
        target = os.path.join(site, path)
        if os.path.exists(target):
            rows[path] = [path, f"sha256={sha256(target)}", str(os.path.getsize(target))]
        else:
            rows.pop(path, None)
    if rows == before:
        return False
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows.values())
    write_text(name, text.getvalue(), 0o644)
    return True


def read(name: str) -> Dict[str, List[str]]:
    """A RECORD's rows by path; empty where there is none."""
    try:
        with open_regular(name) as file:
            lines = io.TextIOWrapper(file, "utf-8", newline="")
            return {row[0]: row for row in csv.reader(lines) if row}
    except FileNotFoundError:
        return {}


def sha256(path: str) -> Optional[str]:
    """A file's hash as RECORD writes it; None where there is no file."""
    try:
        return record_hash(digest(path))
    except FileNotFoundError:
        return None


def record_hash(found: Any) -> str:
    """A hash object's value as RECORD writes it."""
    return base64.urlsafe_b64encode(found.digest()).rstrip(b"=").decode()
