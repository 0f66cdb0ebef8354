"""RECORD files of installed distributions, kept true where we change what they list."""

from __future__ import annotations

import base64
import csv
import glob
import hashlib
import io
import os
from typing import Dict, Iterable, List, Optional

from ..core.atomic_files import write_text
from ..core.interface import AgentError


def site_packages(environment: str) -> str:
    """Where an environment's distributions lie; error `no-environment` where there is no such."""
    pattern = os.path.join(glob.escape(environment), "lib", "python3*", "site-packages")
    found = glob.glob(pattern)
    if len(found) != 1:
        raise AgentError("no-environment", f"{environment} is no Python environment")
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
    write_text(name, text.getvalue())
    return True


def read(name: str) -> Dict[str, List[str]]:
    """A RECORD's rows by path; empty where there is none."""
    try:
        with open(name, encoding="utf-8", newline="") as file:
            return {row[0]: row for row in csv.reader(file) if row}
    except FileNotFoundError:
        return {}


def sha256(path: str) -> Optional[str]:
    """A file's hash as RECORD writes it; None where there is no file."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
    except FileNotFoundError:
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
