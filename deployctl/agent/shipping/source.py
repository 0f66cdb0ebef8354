"""The manifest of a folder that is sent, kept beside it for as long as its files stay the same."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, Dict

from ..core.atomic_files import read_json, write_json
from . import pieces

FOLDER = "@/shipping"


def manifest_note(root: str, folder: str) -> str:
    """Where the manifest of a folder is kept below the root."""
    name = hashlib.sha256(folder.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return os.path.join(root, FOLDER[2:], name + ".json")


def described(root: str, folder: str, step: Callable[[], None]) -> Dict[str, Any]:
    """The manifest of a folder; its checksums are made once, and again after any change of a
    file's name, size, mode or time."""
    place = manifest_note(root, folder)
    signature = [list(entry) for entry in pieces.listing(folder)]
    found = pieces.kept(read_json(place), signature)
    if found is None:
        found = pieces.describe(folder, step)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        write_json(place, {"folder": folder, "signature": signature, "manifest": found})
    return found


def forget(root: str, folder: str) -> None:
    """Drop the note, so that the checksums are computed again."""
    place = manifest_note(root, folder)
    if os.path.exists(place):
        os.unlink(place)
